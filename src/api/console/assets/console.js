/** What pages do beside htmx: hand a link's token over, hear of changes, copy a text. */
(() => {
  const openForm = document.querySelector('form[data-open]');
  if (openForm && location.hash.length > 1) {
    openForm.elements.namedItem('link').value = location.hash.slice(1);
    // Neither the history nor the address bar keeps it.
    history.replaceState(null, '', location.pathname);
    openForm.submit();
  }

  const { events } = document.body.dataset;
  if (events) listen(events);

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

  // What an action answered is read out and scrolled to.
  document.addEventListener('htmx:after:swap', () => {
    const result = document.querySelector('#result[tabindex]');
    if (result && !result.dataset.shown) {
      result.dataset.shown = 'yes';
      result.focus();
    }
  });

  // What got no answer at all, or one that is no page.
  document.addEventListener('htmx:error', ({ target }) => {
    const result = document.getElementById('result');
    if (!result || !(target instanceof HTMLFormElement)) return;
    result.className = 'notice bad';
    result.setAttribute('role', 'alert');
    result.textContent =
      'No answer came: it is not known whether anything was done. Please look, then try again.';
  });

  /** Only while the page is seen: a browser has six connections to a host, over all of its tabs. */
  function listen(url) {
    let source;
    let pause;
    const open = () => {
      clearTimeout(pause);
      if (source || document.hidden) return;
      source = new EventSource(url);
      source.addEventListener('changed', () => document.body.dispatchEvent(new Event('changed')));
      source.addEventListener('ended', () => location.assign('/console/open'));
      source.addEventListener('error', () => {
        if (source?.readyState !== EventSource.CLOSED) return;
        source = undefined;
        // Refused: where the session has ended, the answer to this leads away.
        document.body.dispatchEvent(new Event('changed'));
        pause = setTimeout(open, 60_000);
      });
    };
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) {
        open();
        document.body.dispatchEvent(new Event('changed'));
        return;
      }
      source?.close();
      source = undefined;
    });
    addEventListener('pagehide', () => source?.close());
    open();
  }
})();
