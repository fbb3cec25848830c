import { setImmediate } from 'node:timers/promises';
import { Progress } from './progress';
import { type Column, formatTable } from './table';

/** How a benchmark shows its results. */
export interface ResultsOptions<Row> {
  /** Each row as JSON on a line of its own, as soon as it is there, and nothing else. If not, a table at the end. */
  readonly json: boolean;
  readonly columns: readonly Column<Row>[];
  /** What the work is, row by row, for people who wait. */
  readonly describe: (row: number) => string;
}

/**
 * Runs a benchmark's measurements, one a row, and writes their results to standard output; one that gives none has no
 * row. If the output's reader leaves (`| head`), the process ends, as there is nobody to measure for.
 */
export async function writeResults<Row>(
  measurements: readonly (() => Row | Promise<Row | undefined>)[],
  { json, columns, describe }: ResultsOptions<Row>,
): Promise<void> {
  const progress = new Progress();
  const rows: Row[] = [];
  const leave = (error: NodeJS.ErrnoException): void => {
    if (error.code !== 'EPIPE') throw error;
    process.exit();
  };
  process.stdout.on('error', leave);
  try {
    for (const [index, measure] of measurements.entries()) {
      progress.show(`${index + 1}/${measurements.length}: ${describe(index)}`);
      const row = await measure();
      progress.clear();
      if (row === undefined) continue;
      rows.push(row);
      if (json) process.stdout.write(`${JSON.stringify(row)}\n`);
      await setImmediate(); // A measurement may block the thread; errors of the output are told in between.
    }
    if (!json) process.stdout.write(`${formatTable(columns, rows).join('\n')}\n`);
    await setImmediate();
  } finally {
    progress.clear();
    process.stdout.off('error', leave);
  }
}
