export * from './common';
export {
  loadBackend,
  type BackendName,
  type BackendOptions,
  type LoadedBackend,
  type TensorFlow,
} from './tensorflow/backend';
export type { Checkpoint } from './tensorflow/checkpoint';
export type { CheckpointOptions, ResumeOptions } from './tensorflow/checkpoint-options';
export type { JoinedPosition } from './tensorflow/live-training';
export { ctcGreedyDecode, ctcLoss, type CtcOptions } from './tensorflow/ctc-loss';
export type { NamedTensor } from './tensorflow/optimizer-state';
export type { Variables } from './tensorflow/variables';
export { connect, Ring } from './tensorflow/ring';
export type { Gradients } from './tensorflow/exchanged-variables';
export { RingOptimizer } from './tensorflow/ring-optimizer';
export type { RowDataset, RowsOptions } from './tensorflow/row-dataset';
export type { OuterOptions, WrapOptions } from './tensorflow/wrap-options';
export type { CallbackOptions } from './tensorflow/ring-callback';
export type { LearningRateRule } from './core/ring-agreement';
export type { ShardOptions, Split, SplitOptions, TensorData } from './tensorflow/shard';
export type { PredictOptions, WholeDataOptions, WholeInput } from './tensorflow/whole-data';
export type { BatchNormalizationConfig } from './tensorflow/sync-batch-norm';
export type { Trained } from './tensorflow/trained';
