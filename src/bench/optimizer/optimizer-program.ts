/**
 * A program that loads one backend and measures both optimizers on it. It is forked, and answers with one message.
 */
import { GradringError } from '../../errors';
import { loadBackend } from '../../tensorflow/backend';
import type { OptimizerAnswer, OptimizerOrder } from './optimizer-process';

async function measure({ backend, withResNet50Step, ...measured }: OptimizerOrder): Promise<OptimizerAnswer> {
  try {
    await loadBackend({ backend });
  } catch (error) {
    if (error instanceof GradringError && error.code === 'ERR_BACKEND') return { absent: error.message };
    throw error;
  }
  // Imported after the backend is loaded, because both modules load TensorFlow.js.
  const { measureOptimizer } = await import('./optimizer-measurement');
  const times = await measureOptimizer(measured);
  if (!withResNet50Step) return { times };
  const { measureResNet50Step } = await import('./resnet50-step');
  try {
    return { times, stepMs: measureResNet50Step({ batchSize: 8, imageSize: 224 }) };
  } catch (error) {
    return { times, stepFailure: wordsOf(error) };
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

process.once('disconnect', () => process.exit()); // no process waits for the answer any more
process.once('message', order => {
  measure(order as OptimizerOrder).then(
    answer => process.send!(answer, () => process.exit()),
    (error: unknown) => {
      console.error(wordsOf(error));
      process.exit(1);
    },
  );
});
