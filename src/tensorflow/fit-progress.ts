import { tf } from './tfjs';
import type { Communicator } from '../communicator/communicator';
import { COLUMNS_VARIABLE, REPLACEABLE } from '../status-line';
import type { RingOptimizer } from './ring-optimizer';

/** The bar is not drawn again before this time has passed. */
const REDRAW_MS = 100;

/** Characters of the bar itself. */
const BAR_WIDTH = 20;

/** Returns to the first column, and erases the line. */
const CLEAR = `\r${REPLACEABLE}`;

type Logs = Readonly<Record<string, number | tf.Scalar>>;

/** Where progress is shown: a terminal, or a pipe. */
export interface ProgressStream {
  readonly isTTY?: boolean;
  /** How wide a bar may be. Undefined if there is no terminal, neither here nor where the launcher shows the lines. */
  readonly columns?: number | undefined;
  write(text: string): unknown;
}

function standardError(): ProgressStream {
  if (process.stderr.isTTY) return process.stderr;
  return {
    columns: Number(process.env[COLUMNS_VARIABLE]) || undefined,
    write: text => process.stderr.write(text),
  };
}

/**
 * Shows on rank 0 how far `model.fit` is: a line for each epoch, with the metrics of all ranks. With `verbose: 1` on a
 * terminal there is also a bar within the epoch, with the loss of rank 0. The line of the epoch replaces it.
 *
 * It is called after the ring's callback, so the metrics at the end of an epoch are averages.
 */
export class FitProgress extends tf.Callback {
  private stepsPerEpoch: number | undefined;
  private epoch = 0;
  /** Batches of this epoch that are done. */
  private batches = 0;
  private epochBeganAt = 0;
  private drawnAt = 0;
  /** Since this `model.fit` began. */
  private readonly done = { epochs: 0, steps: 0, ms: 0 };

  constructor(
    private readonly communicator: Communicator,
    private readonly verbose: unknown,
    private readonly stream: ProgressStream = standardError(),
    private readonly now: () => number = () => performance.now(),
  ) {
    super();
  }

  override async onEpochBegin(epoch: number): Promise<void> {
    const { samples, batchSize, steps } = this.fit;
    this.stepsPerEpoch ??= samples == null ? (steps ?? undefined) : Math.ceil(samples / batchSize);
    this.epoch = epoch;
    this.batches = 0;
    this.epochBeganAt = this.now();
  }

  override async onBatchEnd(_batch: number, logs: Logs = {}): Promise<void> {
    this.batches++;
    const now = this.now();
    if (!this.showsBar || now - this.drawnAt < REDRAW_MS) return;
    this.drawnAt = now;
    const loss = logs['loss'];
    const value = loss === undefined || typeof loss === 'number' ? loss : (await loss.data())[0];
    this.draw(value);
  }

  override async onEpochEnd(epoch: number, logs: Logs = {}): Promise<void> {
    const ms = this.now() - this.epochBeganAt;
    this.stepsPerEpoch = this.batches;
    this.done.epochs++;
    this.done.steps += this.batches;
    this.done.ms += ms;
    if (this.communicator.rank > 0) return;
    const names = Object.keys(logs).filter(name => !name.startsWith('val_'));
    const metrics = [...names, ...Object.keys(logs).filter(name => !names.includes(name))];
    const left = this.fit.epochs - epoch - 1;
    const words = [
      ...metrics.map(name => `${name} ${rounded(Number(logs[name]))}`),
      rate(this.batches, ms),
      ...this.sent(),
      ...(left > 0 ? [`${time((this.done.ms / this.done.epochs) * left)} left`] : []),
    ];
    this.clear();
    this.stream.write(`epoch ${epoch + 1}/${this.fit.epochs}: ${words.join(', ')}\n`);
  }

  /** Removes the bar, if there is one. What is printed next begins at the start of a line. */
  clear(): void {
    if (this.showsBar && this.stream.isTTY) this.stream.write(CLEAR);
  }

  private get showsBar(): boolean {
    return this.verbose === 1 && this.communicator.rank === 0 && this.stream.columns !== undefined;
  }

  private draw(loss: number | undefined): void {
    const { batches, stepsPerEpoch, done } = this;
    const ms = this.now() - this.epochBeganAt;
    const words = [
      ...(loss === undefined ? [] : [`loss ${rounded(loss)}${this.communicator.worldSize > 1 ? ' on rank 0' : ''}`]),
      rate(batches, ms),
      ...this.sent(),
      ...(stepsPerEpoch === undefined ? [] : [`${time(this.msLeft(ms, stepsPerEpoch))} left`]),
    ];
    const full = stepsPerEpoch === undefined ? 0 : Math.round((BAR_WIDTH * batches) / stepsPerEpoch);
    const bar = stepsPerEpoch === undefined ? '' : `[${'='.repeat(full).padEnd(BAR_WIDTH)}] `;
    const count = stepsPerEpoch === undefined ? `step ${done.steps + batches}` : `${batches}/${stepsPerEpoch}`;
    const text = `epoch ${this.epoch + 1}/${this.fit.epochs} ${bar}${count}, ${words.join(', ')}`;
    // A longer line would wrap, and the next line would replace only its last part.
    const line = text.slice(0, this.stream.columns! - 1);
    this.stream.write(this.stream.isTTY ? `${CLEAR}${line}\r` : `${REPLACEABLE}${line}\n`);
  }

  private msLeft(ms: number, stepsPerEpoch: number): number {
    const { steps, ms: before } = this.done;
    const stepsLeft = (this.fit.epochs - this.epoch) * stepsPerEpoch - this.batches;
    return ((before + ms) / (steps + this.batches)) * stepsLeft;
  }

  /** What this rank has sent, and how many times less that is than without compression. */
  private sent(): string[] {
    if (this.communicator.worldSize === 1) return [];
    const { optimizer } = this.model as unknown as { readonly optimizer: RingOptimizer };
    const { bytesSent, denseBytes } = optimizer.statistics;
    if (bytesSent === 0) return []; // before the first exchange
    const [ratio, word] = bytesSent <= denseBytes ? [denseBytes / bytesSent, 'less'] : [bytesSent / denseBytes, 'more'];
    return [`sent ${size(bytesSent)} (${rounded(ratio, 3)}× ${word})`];
  }

  private get fit(): FitParameters {
    return this.params as unknown as FitParameters;
  }
}

/** The parameters that tfjs gives to callbacks, as far as they matter here. */
export interface FitParameters {
  readonly initialEpoch?: number | undefined;
  readonly epochs: number;
  /** Null if the data are a dataset. */
  readonly samples?: number | null;
  /** Null if the data are a dataset. */
  readonly batchSize: number;
  readonly steps?: number | null;
  readonly doValidation: boolean;
}

/** A number with few digits: 0.0123, 1.235, 12350. */
function rounded(value: number, digits = 4): string {
  return String(Number(value.toPrecision(digits)));
}

function rate(steps: number, ms: number): string {
  return `${rounded((1000 * steps) / ms, 3)} steps/s`;
}

function size(bytes: number): string {
  const [unit, bytesOfUnit] = bytes < 1e6 ? ['kB', 1e3] : bytes < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  return `${rounded(bytes / Number(bytesOfUnit), 3)} ${unit}`;
}

/** 0:09, 12:34, 1:02:03. */
function time(ms: number): string {
  const seconds = Math.round(ms / 1000);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const [first, ...others] = parts[0] === 0 ? parts.slice(1) : parts;
  return [first, ...others.map(part => String(part).padStart(2, '0'))].join(':');
}
