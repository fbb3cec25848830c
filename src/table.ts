/** A column of {@link formatTable}. */
export interface Column<Row> {
  /** With the unit, if it has one: `floor ms`. */
  readonly heading: string;
  /** Undefined if the row has no such value. */
  readonly value: (row: Row) => number | string | undefined;
  /** The decimals of a column of numbers; 'all' for as many as a number has. Left out for text. */
  readonly decimals?: number | 'all';
}

/**
 * Lines of aligned columns, two spaces apart: the headings, then the rows. Numbers are right-aligned, text is
 * left-aligned. A column is left out if no row has a value for it.
 */
export function formatTable<Row>(all: readonly Column<Row>[], rows: readonly Row[]): string[] {
  const columns = all.filter(({ value }) => rows.some(row => value(row) !== undefined));
  const cells = columns.map(column => [column.heading, ...rows.map(row => cellText(column, row))]);
  const widths = cells.map(column => Math.max(...column.map(text => text.length)));
  return Array.from({ length: rows.length + 1 }, (_, line) =>
    columns
      .map(({ decimals }, i) => {
        const text = cells[i]![line]!;
        return decimals === undefined ? text.padEnd(widths[i]!) : text.padStart(widths[i]!);
      })
      .join('  ')
      .trimEnd(),
  );
}

function cellText<Row>({ value, decimals }: Column<Row>, row: Row): string {
  const cell = value(row);
  if (cell === undefined) return '–';
  if (typeof cell === 'string') return cell;
  const digits =
    typeof decimals === 'number'
      ? { minimumFractionDigits: decimals, maximumFractionDigits: decimals }
      : { maximumFractionDigits: 20 };
  return cell.toLocaleString('en-US', digits);
}
