import type { Random } from './random';

export function mutateBytes(random: Random, bytes: Uint8Array, other: Uint8Array): Uint8Array;
