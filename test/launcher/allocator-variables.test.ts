import { allocatorVariables } from '../../src/launcher/host-resources';

test('the ranks keep the memory that they free', () => {
  expect(allocatorVariables({})).toEqual({
    MALLOC_MMAP_MAX_: '0',
    MALLOC_TRIM_THRESHOLD_: '536870912',
    MALLOC_TOP_PAD_: '16777216',
  });
});

test('what the user has set stays', () => {
  expect(allocatorVariables({ MALLOC_TRIM_THRESHOLD_: '0', MALLOC_MMAP_MAX_: '5' })).toEqual({
    MALLOC_TOP_PAD_: '16777216',
  });
  expect(allocatorVariables({ MALLOC_MMAP_THRESHOLD_: '1000' })).toEqual({
    MALLOC_TRIM_THRESHOLD_: '536870912',
    MALLOC_TOP_PAD_: '16777216',
  });
});
