// What gradring and gradring/core both export. Each has a connect of its own.
export type {
  ArrayOf,
  CallOptions,
  Colour,
  ElementType,
  MessageOptions,
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
  gradientDropping,
  noCompression,
  type ChosenDgc,
  type Compression,
  type DgcCompression,
  type DgcOptions,
  type EntryRoute,
  type GradientDroppingOptions,
  type NoCompression,
  type NoCompressionOptions,
} from './compression/dgc-options';
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
export type { CoreCheckpointOptions, ResumedPosition } from './core/core-checkpoint-options';
export type { StepStatistics } from './core/exchange-steps';
export type { ResidualPolicy } from './core/resized-state';
