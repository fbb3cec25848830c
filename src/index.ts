export type {
  ArrayOf,
  CallOptions,
  Colour,
  ElementType,
  NumericArray,
  ReduceOptions,
  Reduction,
  GatherOptions,
  BroadcastOptions,
  RootedGatherOptions,
  RootedReduceOptions,
  ScatterOptions,
  SparseArray,
  TrafficCount,
} from './communicator/communicator';
export { bitsToFloats, floatsToBits, type HalfType } from './collectives/half-floats';
export { Communicator } from './communicator/communicator';
export type { Encryption, LaunchedOption, RankOptions, TransportName } from './environment/rank-options';
export type { ConnectInput as ConnectOptions } from './rendezvous/connect-options';
export {
  dgc,
  noCompression,
  type ChosenDgc,
  type Compression,
  type DgcCompression,
  type DgcOptions,
  type EntryRoute,
  type NoCompression,
  type NoCompressionOptions,
} from './compression/dgc-options';
export { gradientDropping, type GradientDroppingOptions } from './compression/gradient-dropping';
export type {
  CompressedTensor,
  CompressionRing,
  Compressor,
  CompressorFactory,
} from './compression/compressors/compressor';
export {
  customCompression,
  lowRank,
  oneBit,
  powerSgd,
  qsgd,
  ternGrad,
  type CustomCompression,
  type CustomCompressionOptions,
  type CustomOptions,
  type LowRankOptions,
  type PowerSgdOptions,
  type QsgdOptions,
} from './compression/compressors/custom-compression';
export type { ClipPlace } from './compression/clipping';
export type { ValueFormat } from './compression/value-format';
export type { RankEnvironment } from './environment/rank-environment';
export { GradringError, type ErrorCode, type ErrorDetails } from './errors';
export type { LaunchResult } from './launcher/conclude';
export type { HostRanks } from './launcher/hosts/host-list';
export { launch } from './launcher/launch';
export type { LaunchOptions } from './launcher/launch-options';
export type { RankOutcome } from './launcher/rank-process';
export type { ForwardedSignal } from './launcher/signals';
export {
  loadBackend,
  type BackendName,
  type BackendOptions,
  type LoadedBackend,
  type TensorFlow,
} from './tensorflow/backend';
export type { Checkpoint } from './tensorflow/checkpoint';
export type { CheckpointOptions, ResumeOptions } from './tensorflow/checkpoint-options';
export type { CoreCheckpointOptions, ResumedPosition } from './core/core-checkpoint-options';
export type { JoinedPosition } from './tensorflow/live-training';
export { ctcGreedyDecode, ctcLoss, type CtcOptions } from './tensorflow/ctc-loss';
export type { NamedTensor } from './tensorflow/optimizer-state';
export type { Variables } from './tensorflow/variables';
export type { ResidualPolicy } from './core/resized-state';
export { connect, Ring } from './tensorflow/ring';
export type { Gradients } from './tensorflow/exchanged-variables';
export type { StepStatistics } from './core/exchange-steps';
export { RingOptimizer } from './tensorflow/ring-optimizer';
export type { RowDataset, RowsOptions } from './tensorflow/row-dataset';
export type { OuterOptions, WrapOptions } from './tensorflow/wrap-options';
export type { CallbackOptions } from './tensorflow/ring-callback';
export type { LearningRateRule } from './core/ring-resize';
export type { ShardOptions, Split, SplitOptions, TensorData } from './tensorflow/shard';
export type { PredictOptions, WholeDataOptions, WholeInput } from './tensorflow/whole-data';
export type { BatchNormalizationConfig } from './tensorflow/sync-batch-norm';
export type { Trained } from './tensorflow/trained';
