import { type Column, formatTable } from '../src/table';

interface Row {
  name: string;
  count: number;
  timeMs?: number;
  never?: number;
}

const COLUMNS: Column<Row>[] = [
  { heading: 'name', value: row => row.name },
  { heading: 'count', value: row => row.count, decimals: 'all' },
  { heading: 'ms', value: row => row.timeMs, decimals: 2 },
  { heading: 'never', value: row => row.never, decimals: 0 },
];

test('numbers to the right, text to the left, and no column without a value', () => {
  const rows = [
    { name: 'a', count: 25_600_000, timeMs: 1.005 },
    { name: 'longer', count: 0.015625 },
  ];
  expect(formatTable(COLUMNS, rows)).toEqual([
    'name         count    ms',
    'a       25,600,000  1.01',
    'longer    0.015625     –',
  ]);
});
