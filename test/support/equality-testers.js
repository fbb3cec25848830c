/** jest takes `[1, undefined]` and `[1]` for equal in `toEqual`, so a test could not see that something is missing. */
function haveOtherLengths(a, b) {
  return Array.isArray(a) && Array.isArray(b) && a.length !== b.length ? false : undefined;
}

/** jest makes a text of each index, which takes seconds for long arrays. Whatever differs is left to it. */
function areSameNumbers(a, b) {
  if (ArrayBuffer.isView(a) && ArrayBuffer.isView(b)) {
    const bytesOf = ({ buffer, byteOffset, byteLength }) => Buffer.from(buffer, byteOffset, byteLength);
    return a.constructor === b.constructor && bytesOf(a).equals(bytesOf(b)) ? true : undefined;
  }
  if (!Array.isArray(a) || !Array.isArray(b)) return undefined;
  for (let i = 0; i < a.length; i++) if (typeof a[i] !== 'number' || !Object.is(a[i], b[i])) return undefined;
  return true;
}

expect.addEqualityTesters([haveOtherLengths, areSameNumbers]);
