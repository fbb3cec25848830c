import { statfsSync } from 'node:fs';
import { availableParallelism, cpus, freemem, totalmem } from 'node:os';
import { addressSpaceLimit, addressSpaceNeeds, gibibytes } from '../address-space';
import { FILES_OF_A_RANK, openFilesLimit } from '../open-files';
import { SHARED_MEMORY_LANE_BYTES } from '../transport/data/shared-memory-lane';
import { findKoffi, hasSystemCalls } from '../transport/data/system-calls';
import type { Finding } from './finding';

const LEAST_OPEN_FILES = 256;

/** What Node and a script have open beside the ring, about. */
const OTHER_FILES = 24;

export function coresFinding(): Finding {
  const cores = availableParallelism();
  const model = cpus()[0]?.model.trim() ?? 'unknown';
  const words = `${cores}, ${model}; start with as many ranks as cores`;
  return { what: 'Cores', verdict: 'ok', words, details: { cores, model } };
}

export function memoryFinding(): Finding {
  const [free, total] = [freemem(), totalmem()];
  const words = `${gibibytes(free)} of ${gibibytes(total)} free; beside the model and TensorFlow, a rank needs about 16 bytes for each parameter, and on each of its threads 4 more for each element of the largest matrix`;
  return { what: 'Memory', verdict: 'ok', words, details: { freeBytes: free, totalBytes: total } };
}

/** Undefined if there is no limit. */
export function addressSpaceFinding(): Finding | undefined {
  const limitBytes = addressSpaceLimit();
  if (limitBytes === undefined) return undefined;
  const what = 'Address space';
  const { withoutWasm, withWasm, advice } = addressSpaceNeeds();
  const details = { limitBytes, neededBytes: withoutWasm, neededBytesWithWasm: withWasm };
  const limited = `limited to ${gibibytes(limitBytes)} (ulimit -v)`;
  if (limitBytes >= withWasm) return { what, verdict: 'ok', words: `${limited}, enough for a rank`, details };
  const words = `${limited}. ${advice}`;
  return { what, verdict: limitBytes < withoutWasm ? 'problem' : 'warning', words, details };
}

/** Undefined if the system does not say it. */
export function openFilesFinding(): Finding | undefined {
  const limit = openFilesLimit;
  if (limit === undefined) return undefined;
  const details = { limit: Number.isFinite(limit) ? limit : null };
  const ranks = Math.max(0, limit - FILES_OF_A_RANK - OTHER_FILES); // rank 0 has a connection to each
  const enough = `enough for a ring of ${ranks} ranks`;
  if (limit < LEAST_OPEN_FILES) {
    const words = `only ${limit} for each process, ${enough}; raise the hard limit (ulimit -n 1024, as root)`;
    return { what: 'Open files', verdict: 'warning', words, details };
  }
  const words = `up to ${limit} for each process${details.limit === null ? '' : `, ${enough}`}`;
  return { what: 'Open files', verdict: 'ok', words, details };
}

/** Undefined if there is no /dev/shm. */
export function sharedMemoryFinding(): Finding | undefined {
  try {
    const { bavail, bsize } = statfsSync('/dev/shm');
    const free = bavail * bsize;
    const ranks = Math.floor(free / SHARED_MEMORY_LANE_BYTES);
    const canMap = hasSystemCalls();
    const details = { freeBytes: free, canMap };
    if (!canMap) {
      const words = `the optional package koffi ${koffiTrouble()}; ranks of one host use sockets, which are slower`;
      return { what: 'Shared memory', verdict: 'warning', words, details };
    }
    if (ranks < 16) {
      const words = `/dev/shm has ${Math.round(free / 2 ** 20)} MiB free, enough for ${ranks} ranks; more ranks use sockets, which are slower (docker run --shm-size=1g)`;
      return { what: 'Shared memory', verdict: 'warning', words, details };
    }
    return { what: 'Shared memory', verdict: 'ok', words: `${gibibytes(free)} free in /dev/shm`, details };
  } catch {
    return undefined;
  }
}

/** Why koffi cannot be used, and what helps. */
function koffiTrouble(): string {
  const { file, refused } = findKoffi();
  if (file !== undefined) return 'is installed, but does not work here';
  return refused === undefined ? 'did not install (npm install --include=optional)' : `was refused: ${refused}`;
}
