// The entry of dist/kernels/kernels.wasm. What each function promises stands in ../kernels.ts.
//
// Two threads run an instance each over one memory, so nothing here may allocate, collect or own static data:
// whatever a kernel needs to keep, its caller gives it room for.
export * from './reduce';
export * from './scan';
export * from './momentum';
export * from './accumulate';
export * from './selection';
export * from './sparse';
export * from './bits';
export * from './rice';
export * from './rice-decode';
export * from './rice-parameter';
export * from './subsets';
export * from './values';
export * from './value-blocks';
