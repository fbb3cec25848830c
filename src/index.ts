export type {
  ArrayOf,
  ElementType,
  NumericArray,
  ReduceOptions,
  Reduction,
  GatherOptions,
  BroadcastOptions,
  SparseArray,
} from './communicator/communicator';
export { Communicator } from './communicator/communicator';
export type { ConnectInput as ConnectOptions } from './communicator/connect-options';
export { dgc, noCompression, type Compression, type DgcOptions } from './compression/dgc-options';
export type { ValueFormat } from './compression/value-format';
export { GradringError, type ErrorCode, type ErrorDetails } from './errors';
export { launch } from './launcher/launch';
export type { LaunchOptions } from './launcher/launch-options';
export { loadBackend, type BackendName, type BackendOptions, type LoadedBackend } from './tensorflow/backend';
export type { Checkpoint } from './tensorflow/checkpoint';
export type { CheckpointOptions, ResumedPosition } from './tensorflow/checkpoint-options';
export type { JoinedPosition } from './tensorflow/live-training';
export { connect, Ring } from './tensorflow/ring';
export { RingOptimizer, type StepStatistics, type WrapOptions } from './tensorflow/ring-optimizer';
export type { CallbackOptions } from './tensorflow/ring-callback';
export type { LearningRateRule } from './tensorflow/ring-resize';
export type { Trained } from './tensorflow/trained';
export type { TrafficCount } from './transport/transport';
