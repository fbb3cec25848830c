import { allocatorVariables } from '../../src/launcher/allocator-variables';

test('the ranks keep the memory that they free', () => {
  expect(allocatorVariables({})).toEqual({
    MALLOC_MMAP_THRESHOLD_: '33554432',
    MALLOC_TRIM_THRESHOLD_: '536870912',
    MALLOC_TOP_PAD_: '16777216',
  });
});

test('what the user has set stays', () => {
  expect(Object.keys(allocatorVariables({ MALLOC_TRIM_THRESHOLD_: '0' }))).toEqual([
    'MALLOC_MMAP_THRESHOLD_',
    'MALLOC_TOP_PAD_',
  ]);
});
