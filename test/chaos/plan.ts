import type { FaultName } from './fault-kinds';
import type { WayToLeave } from './leaving';

/** Something that goes wrong in a run. */
export interface Fault {
  readonly kind: FaultName;
  /** The ranks that it strikes. */
  readonly ranks: readonly number[];
  /** After some rank has done a step, or after the start. */
  readonly at: { readonly step: number; readonly afterMs: number } | { readonly startMs: number };
  /** How long it lasts, or until the rank is started again. */
  readonly forMs: number;
}

/** Ranks that an elastic run loses. */
export interface Loss {
  readonly kind: 'kill' | 'stop';
  readonly ranks: readonly number[];
  /**
   * After some rank has done a step; after the start; after the loss before it, while the next ring forms; or after the
   * rank was started again.
   */
  readonly at:
    | { readonly step: number }
    | { readonly startMs: number }
    | { readonly lossMs: number }
    | { readonly replacedMs: number };
  /** So much later. */
  readonly afterMs: number;
}

/** What is lost in an elastic run, and what it survives. */
export interface ElasticPlan {
  readonly min: number;
  readonly maxRestarts: number;
  readonly commitEvery: number;
  readonly losses: readonly Loss[];
}

/** One run: nothing in it is left to chance but what the system does. */
export interface Plan {
  readonly number: number;
  readonly ranks: number;
  readonly steps: number;
  readonly transport: 'ipc' | 'tcp';
  readonly encrypted: boolean;
  /** How long a rank may be silent. */
  readonly heartbeatMs: number;
  /** Whether `gradring run` starts the ranks. */
  readonly launcher: boolean;
  readonly workload: 'exchange' | 'model' | 'elastic';
  readonly compression: 'dgc' | 'none';
  /** Whether the ranks sleep in their calls. */
  readonly sync: boolean;
  /** A rank's own work a step, at most. */
  readonly paceMs: number;
  /** How the script of each rank ends. */
  readonly leaves: readonly WayToLeave[];
  /** How long the ranks that stay do so at least. */
  readonly stayMs: number;
  readonly faults: readonly Fault[];
  /** Of an elastic run. */
  readonly elastic?: ElasticPlan;
}
