import type uPlot from 'uplot';

/** What {@link chartTools} gives to a function that draws. */
export type ChartTools = ReturnType<typeof chartTools>;

/**
 * What all pages draw charts with, in a browser. The text of this function is part of a page, so the function must not
 * use anything from outside itself. `data-drawn` of the root element says how many charts are drawn.
 */
export function chartTools(UPlot: typeof uPlot) {
  /** A colour of the style, as it is when the chart is painted. */
  const color = (name: string) => (): string =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  /** With three digits. */
  const number = (value: number): string =>
    Number(value.toPrecision(3)).toLocaleString('en-US', { maximumFractionDigits: 9 });
  /** From a power of ten below all values to one above. */
  const decades = (least: number, most: number): [number, number] => {
    const from = Math.floor(Math.log10(least));
    return [10 ** from, 10 ** Math.max(from + 1, Math.ceil(Math.log10(most)))];
  };
  const axis = {
    stroke: color('--faint'),
    grid: { stroke: color('--line'), width: 1 },
    ticks: { stroke: color('--line') },
  };

  const isPainted = ({ ctx }: uPlot): boolean => {
    const { data } = ctx.getImageData(0, 0, ctx.canvas.width, ctx.canvas.height);
    for (let i = 3; i < data.length; i += 4) if (data[i] !== 0) return true;
    return false;
  };
  const painted = new Set<uPlot>();
  const plots = new Map<uPlot, () => void>();
  /** Draws a chart that is as wide as its figure. */
  const draw = (
    figure: HTMLElement,
    height: number,
    options: Omit<uPlot.Options, 'width' | 'height'>,
    data: uPlot.AlignedData,
  ): uPlot => {
    const size = (): { width: number; height: number } => {
      const { paddingLeft, paddingRight } = getComputedStyle(figure);
      return { width: figure.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight), height };
    };
    const seen = (u: uPlot): void => {
      if (!painted.has(u) && isPainted(u)) painted.add(u);
      document.documentElement.dataset['drawn'] = String(painted.size);
    };
    const plot = new UPlot({ ...size(), ...options, hooks: { ...options.hooks, draw: [seen] } }, data, figure);
    plots.set(plot, () => plot.setSize(size()));
    return plot;
  };
  const remove = (plot: uPlot): void => {
    painted.delete(plot);
    plots.delete(plot);
    plot.destroy();
  };
  window.addEventListener('resize', () => plots.forEach(resize => resize()));
  const dark = window.matchMedia('(prefers-color-scheme: dark)');
  dark.addEventListener('change', () => plots.forEach((_, plot) => plot.redraw(false, true)));
  return { color, number, decades, axis, draw, remove };
}
