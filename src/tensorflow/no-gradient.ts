import { tf } from './tfjs';
import { GradringError } from '../errors';

type Attributes = Readonly<Record<string, unknown>> | undefined;

/** What TensorFlow.js cannot differentiate, in words, and which runs of kernels that is. */
interface Missing {
  readonly words: string;
  readonly advice: string;
  isRun(kernel: string, attributes: Attributes): boolean;
}

const OTHER_OPERATION = 'Use another operation there, or give it a gradient by tf.customGrad.';

/**
 * The error to raise instead of one of TensorFlow.js which says that an operation has no gradient, or no kernel on this
 * backend: it names the layers that run the operation. Any other error is returned as it is.
 *
 * @param f The function whose gradient was computed. It is run again, to see which layers do what.
 */
export function explainNoGradient(error: unknown, f: () => tf.Scalar): unknown {
  const missing = error instanceof Error ? missingIn(error.message) : undefined;
  if (missing === undefined) return error;
  const layers = layersThatRun(missing, f).map(name => `'${name}'`);
  const where = layers.length === 0 ? '' : ` It runs in the layer${layers.length > 1 ? 's' : ''} ${layers.join(', ')}.`;
  const message = `${missing.words}.${where} ${missing.advice} docs/reference/operations.md says what every operation has.`;
  return new GradringError('ERR_NO_GRADIENT', message, {}, { cause: error });
}

function missingIn(message: string): Missing | undefined {
  const [, gradient] = /^Cannot compute gradient: gradient function not found for (\w+)/.exec(message) ?? [];
  if (gradient !== undefined) {
    const words = `TensorFlow.js has no gradient of the operation ${gradient}, on any backend`;
    return { words, advice: OTHER_OPERATION, isRun: kernel => kernel === gradient };
  }
  const [, kernel, backend] = /^Kernel '(\w+)' not registered for backend '(\w+)'/.exec(message) ?? [];
  if (kernel !== undefined) {
    const words = `The backend ${backend} of TensorFlow.js does not have the operation ${kernel}`;
    return { words, advice: 'Use another operation there, or another backend.', isRun: name => name === kernel };
  }
  const [, convolution] = /^Error in gradient of (?:fused )?(\w+): dilation rates greater than 1/.exec(message) ?? [];
  if (convolution !== undefined) {
    const words = `TensorFlow.js has no gradient of ${convolution} with dilations, on any backend`;
    return { words, advice: OTHER_OPERATION, isRun: (_, attributes) => isDilated(attributes) };
  }
  return undefined;
}

function isDilated(attributes: Attributes): boolean {
  return [attributes?.['dilations'] ?? 1].flat().some(rate => rate !== 1);
}

function layersThatRun({ isRun }: Missing, f: () => tf.Scalar): string[] {
  const found = new Set<string>();
  const running: string[] = [];
  const engine = tf.engine();
  const { prototype } = tf.layers.Layer;
  const { apply } = prototype;
  prototype.apply = function (...args) {
    running.push(this.name);
    try {
      return apply.apply(this, args);
    } finally {
      running.pop();
    }
  };
  // A property of this object alone, which goes before the method of its class.
  engine.runKernel = (kernel, inputs, attributes) => {
    const layer = running.at(-1);
    if (layer !== undefined && isRun(kernel, attributes as Attributes)) found.add(layer);
    return Object.getPrototypeOf(engine).runKernel.call(engine, kernel, inputs, attributes);
  };
  try {
    tf.tidy(() => void f());
  } catch {
    // It failed before, too.
  } finally {
    prototype.apply = apply;
    delete (engine as Partial<typeof engine>).runKernel;
  }
  return [...found];
}
