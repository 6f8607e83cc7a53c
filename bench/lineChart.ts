export interface Series {
  name: string;
  /** Ascending in x; a y that is not a number leaves a gap. */
  points: readonly { x: number; y: number }[];
}

export interface Chart {
  title: string;
  xLabel: string;
  yLabel: string;
  series: readonly Series[];
}

const width = 720;
const height = 360;
const plot = { left: 70, right: 20, top: 44, bottom: 60 };
const colours = ['#1f6feb', '#d1242f', '#1a7f37', '#9a6700', '#8250df'];

/** Draws a line chart with both axes from 0, as an SVG document. */
export function lineChart(chart: Chart): string {
  const points = chart.series.flatMap((s) => s.points).filter((p) => Number.isFinite(p.y));
  const x = axis(Math.max(1, ...points.map((p) => p.x)), plot.left, width - plot.right);
  const y = axis(Math.max(1, ...points.map((p) => p.y)), height - plot.bottom, plot.top);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    text(width / 2, 22, chart.title, 'middle', 15),
    ...y.ticks.flatMap((tick) => [
      line(plot.left, y.at(tick), width - plot.right, y.at(tick), '#d8dee4'),
      text(plot.left - 8, y.at(tick) + 4, String(tick), 'end'),
    ]),
    ...x.ticks.map((tick) => text(x.at(tick), height - plot.bottom + 18, String(tick), 'middle')),
    line(plot.left, height - plot.bottom, width - plot.right, height - plot.bottom, '#57606a'),
    text(width / 2, height - plot.bottom + 36, chart.xLabel, 'middle'),
    `<text x="16" y="${height / 2}" text-anchor="middle" transform="rotate(-90 16 ${height / 2})">${escapeXml(chart.yLabel)}</text>`,
    ...chart.series.flatMap((series, i) => {
      const colour = colours[i % colours.length] ?? '#000';
      const legendX = plot.left + i * 130;
      return [
        `<path d="${path(series, x.at, y.at)}" fill="none" stroke="${colour}" stroke-width="2"/>`,
        line(legendX, height - 10, legendX + 18, height - 10, colour),
        text(legendX + 24, height - 6, series.name, 'start'),
      ];
    }),
    '</svg>',
  ];
  return `${parts.join('\n')}\n`;
}

/** Makes an axis from 0 to a round number at or above `max`, in four to ten steps of 1, 2 or 5 times a power of ten. */
function axis(max: number, from: number, to: number): { ticks: number[]; at: (value: number) => number } {
  const power = 10 ** Math.floor(Math.log10(max / 4));
  const step = ([1, 2, 5, 10].find((s) => max / (s * power) <= 10) ?? 10) * power;
  const end = Math.ceil(max / step) * step;
  const ticks = Array.from({ length: Math.round(end / step) + 1 }, (_, i) =>
    Number((i * step).toPrecision(6)),
  );
  return { ticks, at: (value) => Number((from + (value / end) * (to - from)).toFixed(1)) };
}

function path(series: Series, x: (v: number) => number, y: (v: number) => number): string {
  let pen = 'M';
  return series.points
    .map((p) => {
      if (!Number.isFinite(p.y)) {
        pen = 'M';
        return '';
      }
      const step = `${pen}${x(p.x)} ${y(p.y)}`;
      pen = 'L';
      return step;
    })
    .join('');
}

function line(x1: number, y1: number, x2: number, y2: number, colour: string): string {
  return `<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" stroke="${colour}"/>`;
}

function text(x: number, y: number, content: string, anchor: string, size = 12): string {
  return `<text x="${x}" y="${y}" text-anchor="${anchor}" font-size="${size}">${escapeXml(content)}</text>`;
}

function escapeXml(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
