import { setImmediate } from 'node:timers/promises';
import { Progress } from './progress';
import { type Column, formatTable } from '../table';

/** How a benchmark shows its results. */
export interface ResultsOptions<Row> {
  /** Whether to write each row as a line of JSON as soon as it is measured. If not, a table follows at the end. */
  readonly json: boolean;
  readonly columns: readonly Column<Row>[];
  /** What is measured for a row, in words. */
  readonly describe: (row: number) => string;
}

/**
 * Runs the measurements of a benchmark and writes their results to standard output, one row each. A measurement without
 * a result has no row. If the reader of the output closes it (`| head`), the process ends.
 */
export async function writeResults<Row>(
  measurements: readonly (() => Row | Promise<Row | undefined>)[],
  { json, columns, describe }: ResultsOptions<Row>,
): Promise<void> {
  const progress = new Progress();
  const rows: Row[] = [];
  const forget = endWithReader();
  try {
    for (const [index, measure] of measurements.entries()) {
      progress.show(`${index + 1}/${measurements.length}: ${describe(index)}`);
      const row = await measure();
      progress.clear();
      if (row === undefined) continue;
      rows.push(row);
      if (json) process.stdout.write(`${JSON.stringify(row)}\n`);
      await setImmediate(); // A measurement may block the thread; errors of the output are reported in between.
    }
    if (!json) process.stdout.write(`${formatTable(columns, rows).join('\n')}\n`);
    await setImmediate();
  } finally {
    progress.clear();
    forget();
  }
}

/** From now on, this process ends when the reader of its output closes it (`| head`). Returns what undoes that. */
export function endWithReader(): () => void {
  const leave = (error: NodeJS.ErrnoException): void => {
    if (error.code !== 'EPIPE') throw error;
    process.exit();
  };
  process.stdout.on('error', leave);
  return () => void process.stdout.off('error', leave);
}
