// The entry of dist/kernels/kernels.wasm. ../kernels.ts and ../codec-kernels.ts describe the functions.
//
// Two threads have an instance each over one memory. So nothing here may allocate memory or own static data: the caller
// provides all the room that a kernel needs.
export * from './reduce';
export * from './scan';
export * from './momentum';
export * from './accumulate';
export * from './selection';
export * from './sparse';
export * from './entry-lists';
export * from './bits';
export * from './rice';
export * from './rice-decode';
export * from './subsets';
export * from './values';
export * from './value-blocks';
export * from './matrices';
