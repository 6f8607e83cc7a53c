/** Does for pages what htmx does not: hands a link's token over, updates only a visible page, copies a text. */
(() => {
  const openForm = document.querySelector('form[data-open]');
  if (openForm && location.hash.length > 1) {
    openForm.elements.namedItem('link').value = location.hash.slice(1);
    // Neither the history nor the address bar keeps the token.
    history.replaceState(null, '', location.pathname);
    openForm.submit();
  }
  // A link that is pasted over the address of this page loads nothing by itself.
  if (openForm) addEventListener('hashchange', () => location.reload());

  // Nobody who clicks a button twice wants its change twice.
  const isRepeat = ({ detail, target }) => detail > 1 && target.closest('form[method=post]');
  document.addEventListener('click', (event) => isRepeat(event) && event.preventDefault(), true);

  // A page that nobody sees asks for nothing; once it is seen again, `visibilitychange` triggers the request.
  document.addEventListener('htmx:before:request', (event) => {
    if (document.hidden && event.target.id === 'main') event.preventDefault();
  });

  document.addEventListener('click', async ({ target }) => {
    const button = target instanceof Element ? target.closest('button[data-copies]') : null;
    if (!button) return;
    const source = document.getElementById(button.dataset.copies);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = 'Selected: press Ctrl+C';
    }
  });

  // The next update takes the note away.
  const clock = () => new Date().toISOString().slice(11, 19);
  let updatedAt = clock();
  const sayStale = ({ target }) => {
    if (target.id !== 'main' || document.getElementById('stale')) return;
    const note = `This page is as of ${updatedAt} UTC: it cannot be updated. Reload it to see why.`;
    target.insertAdjacentHTML('afterbegin', `<p id="stale" class="notice bad" role="alert">${note}</p>`);
  };
  document.addEventListener('htmx:response:error', sayStale);
  document.addEventListener('htmx:error', sayStale);

  // A screen reader reads the answer of an action, and the page shows what the action has changed.
  document.addEventListener('htmx:after:swap', ({ target }) => {
    if (target.id === 'main' && !document.getElementById('stale')) updatedAt = clock();
    const result = document.querySelector('#result[tabindex]');
    if (result && !result.dataset.shown) {
      result.dataset.shown = 'yes';
      const wrong = result.dataset.field && sent?.elements.namedItem(result.dataset.field);
      if (wrong) {
        wrong.setAttribute('aria-invalid', 'true');
        wrong.setAttribute('aria-describedby', 'result');
      } else if (sent && !result.classList.contains('bad')) sessionStorage.removeItem(keyOf(sent));
      (wrong || result).focus();
      htmx.trigger('#main', 'refresh');
    }
  });

  // What somebody has written outlasts a reload, Back and the end of the session, until it is done or the tab is closed.
  const keyOf = (form) => `${location.pathname} ${form.getAttribute('action')}`;
  const fieldsOf = (form) => [...form.elements].filter(({ name, type }) => name && type !== 'hidden');
  const written = ({ type }) => (type === 'checkbox' ? 'checked' : 'value');
  /** What the page itself had in a field. */
  const filledWith = (field) => {
    if (field.type === 'checkbox') return field.defaultChecked;
    const chosen =
      field.options && ([...field.options].find((one) => one.defaultSelected) ?? field.options[0]);
    return chosen ? chosen.value : field.defaultValue;
  };
  const isKept = (form) => form && form.method === 'post' && !form.dataset.open;
  document.addEventListener('input', ({ target: { form } }) => {
    if (!isKept(form)) return;
    const all = fieldsOf(form).map((one) => [one.name, [filledWith(one), one[written(one)]]]);
    sessionStorage.setItem(keyOf(form), JSON.stringify(all.filter(([, [was, now]]) => now !== was)));
  });
  for (const form of document.forms) {
    if (!isKept(form)) continue;
    const kept = Object.fromEntries(JSON.parse(sessionStorage.getItem(keyOf(form)) ?? '[]'));
    for (const one of fieldsOf(form)) {
      const [was, now] = kept[one.name] ?? [];
      // What somebody wrote over a value is lost with that value.
      if (was === filledWith(one)) one[written(one)] = now;
    }
  }

  let sent;
  document.addEventListener(
    'submit',
    ({ target }) => {
      sent = target;
      if (target.getAttribute('action').endsWith('/sign_out')) sessionStorage.clear();
      for (const one of target.querySelectorAll('[aria-invalid]')) one.removeAttribute('aria-invalid');
    },
    true,
  );
  const busy =
    (isBusy) =>
    ({ target }) =>
      target instanceof HTMLFormElement && target.setAttribute('aria-busy', String(isBusy));
  document.addEventListener('htmx:before:request', busy(true));
  document.addEventListener('htmx:finally:request', busy(false));

  // No answer came, or one that is no page.
  document.addEventListener('htmx:error', ({ target }) => {
    const result = document.getElementById('result');
    if (!result || !(target instanceof HTMLFormElement)) return;
    result.className = 'notice bad';
    result.setAttribute('role', 'alert');
    result.textContent =
      'No answer came: it is not known whether anything was done. Please look, then try again.';
  });
})();
