import { tf } from './tfjs';
import type { Communicator } from '../communicator/communicator';
import { invalidArgument } from '../errors';
import { type CallbackOptions, RingCallback } from './ring-callback';

/** The result of {@link Ring.callbacks}: the ring's callback, and those under `also`. */
export function callbacksOf(communicator: Communicator, options: CallbackOptions): tf.Callback[] {
  const ring = new RingCallback(communicator, options);
  return [ring, ...(options.also ?? []).map(callback => asCallback(callback))] as tf.Callback[];
}

/** The arguments of `fit` and `fitDataset` that matter here. */
interface FitArguments {
  readonly callbacks?: unknown;
  readonly verbose?: unknown;
  readonly yieldEvery?: unknown;
}

type Fit = (this: tf.LayersModel, ...args: unknown[]) => Promise<tf.History>;

extendFit();

/**
 * Makes `fit` and `fitDataset` of all models arrange the callbacks if the ring's is among them. tfjs looks only at the
 * first callback to decide whether all are instances of its classes. So plain objects after the ring's callback would
 * fail, and plain objects before it would make tfjs call the ring's methods without their object. There is also no
 * other place to make the progress bar of tfjs-node show averages, and to show them once.
 *
 * It is called when this file is loaded. In `model.fit(…, { callbacks: ring.callbacks() })`, JavaScript looks `fit` up
 * before it evaluates the arguments: if those extended it, that would take effect in the next call only.
 */
function extendFit(): void {
  const prototype = tf.LayersModel.prototype as unknown as Record<'fit' | 'fitDataset', Fit>;
  for (const [name, place] of [
    ['fit', 2],
    ['fitDataset', 1],
  ] as const) {
    const original = prototype[name];
    prototype[name] = async function (...args) {
      args[place] = arrange(args[place] as FitArguments | undefined);
      return original.apply(this, args);
    };
  }
}

/** The order: the ring's callback, a progress bar, the user's callbacks, and what must come after those. */
function arrange(args: FitArguments | undefined): FitArguments | undefined {
  if (args?.callbacks == null) return args;
  const given = [args.callbacks].flat();
  const [ring, second] = given.filter(callback => callback instanceof RingCallback);
  if (ring === undefined) return args;
  if (second !== undefined) throw invalidArgument('model.fit was given ring.callbacks() twice: pass it once.');
  const others = given.filter(callback => callback !== ring).map(each => asCallback(each as object, args.yieldEvery));
  const { verbose = 1 } = args;
  const bars = progressBars();
  const isSilent = verbose === 0 || ring.communicator.rank > 0;
  const shown = isSilent ? [] : bars.map(Bar => new Bar());
  return {
    ...args,
    verbose: isSilent || bars.length > 0 ? 0 : verbose,
    callbacks: [ring, ...shown, ...others, ...ring.last],
  };
}

/**
 * The progress bar of tfjs-node, if that is loaded. tfjs would call it before the ring's callback, when the metrics are
 * not averaged yet.
 */
function progressBars(): (new () => tf.CustomCallback)[] {
  const file = Object.keys(require.cache).find(name => /[\\/]tfjs-node(-gpu)?[\\/]dist[\\/]callbacks\.js$/.test(name));
  if (file === undefined) return [];
  const { ProgbarLogger } = require.cache[file]!.exports as { ProgbarLogger?: new () => tf.CustomCallback };
  return ProgbarLogger === undefined ? [] : [ProgbarLogger];
}

/** Makes a callback of an object with some of the methods. Returns instances of tfjs's classes as they are. */
function asCallback(callback: object, yieldEvery: unknown = 'auto'): tf.Callback | tf.CustomCallback {
  const isReady = typeof (callback as { setParams?: unknown } | null)?.setParams === 'function';
  if (isReady) return callback as tf.Callback;
  if (typeof callback !== 'object' || callback === null) {
    throw invalidArgument(`model.fit was given ${String(callback)} as a callback beside ring.callbacks().`);
  }
  return new tf.CustomCallback(callback as tf.CustomCallbackArgs, yieldEvery as tf.ModelFitArgs['yieldEvery'] & 'auto');
}
