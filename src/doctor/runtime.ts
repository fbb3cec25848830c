import { addressSpaceLimit } from '../address-space';
import { attempt } from '../attempt';
import { nodeLinesInWords, nodeVerdict } from '../node-version';
import type { Finding } from './finding';

export function nodeFinding(version = process.versions.node): Finding {
  const verdict = nodeVerdict(version);
  const why = {
    ok: '',
    warning: `; gradring is tested with ${nodeLinesInWords()}`,
    problem: `; gradring works with ${nodeLinesInWords()}`,
  }[verdict];
  const { platform, arch } = process;
  const words = `v${version} on ${platform} ${arch}${why}`;
  return { what: 'Node', verdict, words, details: { version: `v${version}`, platform, arch } };
}

/** @param load Loads the native module, which may be missing or made for another system. */
export async function zeromqFinding(load = () => import('zeromq')): Promise<Finding> {
  const what = 'ZeroMQ';
  let zeromq: typeof import('zeromq');
  try {
    zeromq = await load();
  } catch (error) {
    const reason = (error as Error).message.split('\n')[0]!.replace(/\.$/, '');
    const words = `it cannot be loaded: ${reason}. Install it again with 'npm rebuild zeromq', or 'npm install'`;
    return { what, verdict: 'problem', words, details: { error: reason } };
  }
  const { capability, version } = zeromq;
  const hasCurve = capability.curve === true;
  const details = { libzmq: version, curve: hasCurve, ipc: capability.ipc === true };
  if (!hasCurve) {
    const words = `libzmq ${version}, built without CURVE: links between hosts cannot be encrypted`;
    return { what, verdict: 'warning', words, details };
  }
  return { what, verdict: 'ok', words: `libzmq ${version}, with encryption (CURVE)`, details };
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
  const memory = attempt(() => new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }));
  const hasSharedMemory = memory?.buffer instanceof SharedArrayBuffer;
  const details = { simd: hasSimd, sharedMemory: hasSharedMemory };
  const missing = [
    hasSimd ? [] : ['SIMD instructions'],
    hasSharedMemory ? [] : [addressSpaceLimit() ? 'room for a memory (see Address space)' : 'shared memory'],
  ].flat();
  if (missing.length === 0) return { what: 'WebAssembly', verdict: 'ok', words: 'SIMD and shared memory', details };
  return { what: 'WebAssembly', verdict: 'problem', words: `no ${missing.join(', no ')}`, details };
}
