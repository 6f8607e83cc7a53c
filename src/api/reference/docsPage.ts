/** Our own script and style of the page at /docs. */

/** Shows the description, in the reader's preferred colour scheme. */
export const pageScript = `
const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();
SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  // Its default asks a server of a third party.
  validatorUrl: null,
});
`;

/** Hides the column of links, which is empty; the rest is for narrow screens. */
export const pageStyle = `
body { margin: 0; }
.swagger-ui .wrapper { max-width: 70rem; }
.swagger-ui .info { margin: 2rem 0 1rem; }
.swagger-ui .response-col_links { display: none; }
.dark-mode .swagger-ui table.headers td { color: #e4e6e6; }
.swagger-ui .opblock-description p { max-width: 45rem; }
@media (max-width: 40rem) {
  .swagger-ui .opblock-tag { flex-wrap: wrap; }
  .swagger-ui .opblock-tag small { order: 1; flex-basis: 100%; padding: 0; }
  .swagger-ui .responses-table, .swagger-ui .responses-table > tbody > tr, .swagger-ui .responses-table > tbody > tr > td:not(.response-col_links) { display: block; }
  .swagger-ui .responses-table > thead { display: none; }
  .swagger-ui .response-col_status { padding: 1rem 0 0; font-weight: bold; }
  .swagger-ui .responses-inner { padding: 0.5rem; }
  .swagger-ui .headers-wrapper table.headers, .swagger-ui table.headers { display: block; overflow-x: auto; }
}
`;
