/** The backends that gradring trains on, the fastest first: `loadBackend` tries them in this order. */
export const BACKEND_NAMES = ['tfjs-node-gpu', 'tfjs-node', 'wasm', 'cpu'] as const;

/** The name of a backend; see {@link loadBackend}. */
export type BackendName = (typeof BACKEND_NAMES)[number];
