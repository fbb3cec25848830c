import { capability, version } from 'zeromq';
import type { Finding } from './finding';

/** The versions that package.json has under `engines`. */
const SUPPORTED = /^v(20\.(1[5-9]|[2-9]\d)|22\.([2-9]|\d\d)|(2[3-9]|[3-9]\d)\.)/;

export function nodeFinding(): Finding {
  const { version: node, platform, arch } = process;
  const isSupported = SUPPORTED.test(node);
  const words = `${node} on ${platform} ${arch}${isSupported ? '' : '; gradring needs 20.15 or later, or 22.2 or later'}`;
  return { what: 'Node', verdict: isSupported ? 'ok' : 'problem', words, details: { version: node, platform, arch } };
}

export function zeromqFinding(): Finding {
  const hasCurve = capability.curve === true;
  const details = { libzmq: version, curve: hasCurve, ipc: capability.ipc === true };
  if (!hasCurve) {
    const words = `libzmq ${version}, built without CURVE: links between hosts cannot be encrypted`;
    return { what: 'ZeroMQ', verdict: 'warning', words, details };
  }
  return { what: 'ZeroMQ', verdict: 'ok', words: `libzmq ${version}, with encryption (CURVE)`, details };
}

/** The smallest module with a SIMD instruction: a function that returns v128.const 0. */
const SIMD_MODULE = Uint8Array.from([
  ...[0, 97, 115, 109, 1, 0, 0, 0], // magic, version
  ...[1, 5, 1, 96, 0, 1, 123], // a type: () → v128
  ...[3, 2, 1, 0], // a function of that type
  ...[10, 22, 1, 20, 0, 253, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11], // its code
]);

export function wasmFinding(): Finding {
  const hasSimd = WebAssembly.validate(SIMD_MODULE);
  const hasSharedMemory = canShare();
  const details = { simd: hasSimd, sharedMemory: hasSharedMemory };
  const missing = [hasSimd ? [] : ['SIMD instructions'], hasSharedMemory ? [] : ['shared memory']].flat();
  if (missing.length === 0) return { what: 'WebAssembly', verdict: 'ok', words: 'SIMD and shared memory', details };
  return { what: 'WebAssembly', verdict: 'problem', words: `no ${missing.join(', no ')}`, details };
}

function canShare(): boolean {
  try {
    return new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer instanceof SharedArrayBuffer;
  } catch {
    return false;
  }
}
