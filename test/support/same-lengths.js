// jest takes `[1, undefined]` and `[1]` for equal in `toEqual`, so a test could not see that something is missing.
expect.addEqualityTesters([
  (a, b) => (Array.isArray(a) && Array.isArray(b) && a.length !== b.length ? false : undefined),
]);
