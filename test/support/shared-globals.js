// The globals of Node's own realm that tests have, too: see environment.js.
module.exports = [
  'Array', 'ArrayBuffer', 'SharedArrayBuffer', 'Atomics', 'DataView', 'WebAssembly', 'Error', 'TypeError', 'RangeError',
  'Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array',
  'Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array',
]; // prettier-ignore
