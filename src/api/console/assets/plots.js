/** Draws the plots of a site with uPlot, and again every 20 s while the page is visible. */
(() => {
  const place = document.querySelector('[data-plots]');
  if (!place) return;
  const heightPx = 170;
  const drawn = new Map();
  let columns;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  /** Error classes one upon the other: the first is drawn last, and ends where the second begins. */
  function stacked(failed) {
    const names = Object.keys(failed);
    const sums = [];
    names.forEach((name, i) => {
      sums.push(failed[name].map((n, at) => n + (i === 0 ? 0 : sums[i - 1][at])));
    });
    return names.map((name, i) => ({ name, sums: sums[i], values: failed[name] })).reverse();
  }

  const bars = uPlot.paths.bars({ size: [0.9, 20], align: 1 });

  function bar(label, name, values) {
    return {
      label,
      stroke: color(name),
      fill: color(name),
      width: 0,
      paths: bars,
      points: { show: false },
      value: (_, __, ___, i) => (i === null ? '' : values[i].toLocaleString('en')),
    };
  }

  function line(label, name, dash) {
    return {
      label,
      stroke: color(name),
      width: 2,
      dash,
      spanGaps: false,
      points: { size: 5 },
      value: (_, v) => (v === null ? '' : `${v} ms`),
    };
  }

  function seriesOf(kind) {
    const { at, delivered, failed, median, most } = columns;
    switch (kind) {
      case 'delivered':
        return { data: [at, delivered], series: [bar('succeeded', '--plot-1', delivered)] };
      case 'failed': {
        const all = stacked(failed);
        const none = at.map(() => 0);
        if (all.length === 0) return { data: [at, none], series: [bar('failed', '--plot-2', none)] };
        return {
          data: [at, ...all.map(({ sums }) => sums)],
          series: all.map(({ name, values }, i) =>
            bar(name, `--plot-${2 + ((all.length - 1 - i) % 4)}`, values),
          ),
        };
      }
      default:
        return {
          data: [at, median, most],
          series: [line('half within', '--plot-5'), line('95 % within', '--plot-4', [6, 4])],
        };
    }
  }

  const moment = uPlot.fmtDate('{YYYY}-{MM}-{DD} {HH}:{mm}');

  function utc(seconds) {
    return uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC');
  }

  function draw() {
    for (const target of place.querySelectorAll('[data-plot]')) {
      drawn.get(target)?.destroy();
      const { data, series } = seriesOf(target.dataset.plot);
      const axis = {
        stroke: color('--faint'),
        grid: { stroke: color('--line'), width: 1 },
        ticks: { show: false },
      };
      const options = {
        width: target.clientWidth,
        height: heightPx,
        // UTC, as all times here.
        tzDate: utc,
        cursor: { drag: { x: false, y: false } },
        scales: {
          // The last interval is drawn whole.
          x: { range: (_, from, to) => [from, to + columns.at[1] - columns.at[0]] },
          y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] },
        },
        axes: [
          { ...axis, size: 30, values: '{HH}:{mm}' },
          {
            ...axis,
            size: 56,
            values: (_, ticks) => ticks.map((n) => (Number.isInteger(n) ? n.toLocaleString('en') : '')),
          },
        ],
        series: [{ label: 'from', value: (_, at) => (at === null ? '' : moment(utc(at))) }, ...series],
      };
      drawn.set(target, new uPlot(options, data, target));
    }
  }

  async function load() {
    if (document.hidden) return;
    const answer = await fetch(place.dataset.plots).catch(() => undefined);
    if (!answer?.ok || answer.redirected) return;
    columns = await answer.json();
    draw();
  }

  setInterval(load, 20_000);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => columns && draw());
  let width = place.clientWidth;
  new ResizeObserver(() => {
    if (columns && Math.abs(place.clientWidth - width) > 8) {
      width = place.clientWidth;
      draw();
    }
  }).observe(place);
  void load();
})();
