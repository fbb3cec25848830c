/** A curve. */
export interface ChartSeries {
  readonly label: string;
  /** The number of its colour; the first is 1. 0 is for what only helps to read the others. */
  readonly color: number;
  /** By place on the axis; null if there is no value. */
  readonly values: readonly (number | null)[];
  /** Whether it is the edge of a band or a line to compare with, which is drawn as a thin line. */
  readonly thin: boolean;
  /** The lengths of dashes and gaps. Default: a whole line, or short dashes if it is thin. */
  readonly dash?: readonly number[];
  /**
   * The places of points. Default: everywhere, or nowhere if it is thin. `only` draws no line, and the points larger
   * and hollow.
   */
  readonly points?: readonly number[] | 'only';
}

/** A chart, as plain data for a page. */
export interface Chart {
  readonly title: string;
  /** A sentence below the title. */
  readonly note?: string;
  readonly axis: string;
  readonly unit: 'µs' | 'GB/s' | '×';
  /** What it is drawn over: sizes in bytes, on two logarithmic axes, or numbers of nodes, on two linear ones. */
  readonly over: 'size' | 'nodes';
  /** The sizes or numbers, ascending. */
  readonly xs: readonly number[];
  readonly series: readonly ChartSeries[];
  /** The numbers of two series, the upper one first. The area between them is filled. */
  readonly band?: readonly [number, number];
}
