import { escaped } from '../charts/html-page';
import { type Column, formatTable } from '../table';

/** A table for a page, with the same cells as on a terminal. */
export function htmlTable<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  if (rows.length === 0) return '<p>Nothing was measured.</p>';
  const shown = columns.filter(({ value }) => rows.some(row => value(row) !== undefined));
  const cells = shown.map(column => formatTable([column], rows).map(text => escaped(text.trim())));
  const line = (tag: string, i: number): string =>
    `<tr>${cells.map(column => `<${tag}>${column[i]!}</${tag}>`).join('')}</tr>`;
  const body = rows.map((_, i) => line('td', i + 1)).join('\n');
  return `<table><thead>${line('th', 0)}</thead><tbody>${body}</tbody></table>`;
}
