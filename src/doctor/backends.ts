import { checkLink } from '../native-tensorflow/link-tensorflow';
import { describe } from '../native-tensorflow/link-command';
import { PACKAGES } from '../native-tensorflow/npm-package';
import { type Proof, prove } from '../native-tensorflow/prove';
import type { Finding } from './finding';

/** What a backend can do on this machine. */
interface Backend {
  readonly name: string;
  readonly proof: Proof | undefined;
  readonly words: string;
  /** A warning is for a backend that is installed and does not work. */
  readonly verdict: 'ok' | 'absent' | 'warning';
  readonly details: Readonly<Record<string, unknown>>;
}

/** All backends, the fastest first, each tried in a process of its own; and the one that a training would use. */
export async function backendFindings(): Promise<Finding[]> {
  const backends: Backend[] = [];
  for (const name of PACKAGES) backends.push(await native(name));
  for (const name of ['wasm', 'cpu']) backends.push(await portable(name));
  const best = backends.find(({ proof }) => proof !== undefined);
  return [
    ...backends.map(({ name, words, verdict, details }): Finding => ({ what: name, verdict, words, details })),
    choice(best),
  ];
}

async function native(name: (typeof PACKAGES)[number]): Promise<Backend> {
  const state = await checkLink(name);
  const isAbsent = state.state === 'not installed';
  const verdict = isAbsent ? 'absent' : state.proof === undefined ? 'warning' : 'ok';
  return { name, proof: state.proof, words: describe(state), verdict, details: { ...state } };
}

async function portable(name: string): Promise<Backend> {
  try {
    const proof = await prove(name);
    return {
      name,
      proof,
      words: `works: ${proof.gigaflops} GFLOP/s in a matrix product`,
      verdict: 'ok',
      details: { proof },
    };
  } catch (error) {
    const { message } = error as Error;
    return { name, proof: undefined, words: message, verdict: 'warning', details: { failure: message } };
  }
}

function choice(best: Backend | undefined): Finding {
  const what = 'A training';
  if (best?.proof === undefined)
    return { what, verdict: 'problem', words: 'finds no backend that works', details: { backend: null } };
  const { name, proof } = best;
  const details = { backend: name, device: proof.device };
  if (name === 'cpu' || name === 'wasm') {
    const words = `runs on ${name}; TensorFlow itself is several times as fast: npx gradring link-tensorflow`;
    return { what, verdict: 'warning', words, details };
  }
  return { what, verdict: 'ok', words: `runs on ${name}, on the ${proof.device}`, details };
}
