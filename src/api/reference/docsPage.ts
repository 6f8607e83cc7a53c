/** What the page at /docs has of its own. */

/** Shows the description, in the colours that the reader's system asks for. */
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
  // Its default asks a server elsewhere.
  validatorUrl: null,
});
`;

export const pageStyle = `
body { margin: 0; }
.swagger-ui .wrapper { max-width: 70rem; }
`;
