import type { CollectiveRow } from '../../../src/bench/collectives/row';

/** A row as a benchmark would give it. */
export const row = (elements: number, more: Partial<CollectiveRow> = {}): CollectiveRow => ({
  ...{ collective: 'all-reduce', ranks: 4, elements, bytes: 4 * elements, type: 'float32', op: 'sum' },
  ...{
    transport: 'auto',
    carriedBy: ['tcp-lane-encrypted'],
    algorithm: 'ring',
    iterations: 5,
    timeUs: { min: 90 + elements, p50: 100 + elements, p99: 200 + elements },
  },
  ...{ algbwGBps: elements / 1e4, busbwGBps: elements / 1e5, wireBytesSent: 8 * elements, wrong: 0 },
  ...more,
});
/** Of a page of rows. */
export const OPTIONS = {
  command: 'gradring bench all-reduce <&">',
  startedAt: new Date(Date.UTC(2020, 1, 2, 3, 4, 5)),
};
