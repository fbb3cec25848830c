// gradring/core: what needs no TensorFlow.js.
export * from './common';
export { CoreCheckpoint, type TrainedArrays } from './core/core-checkpoint';
export { connect, CoreRing } from './core/core-ring';
export type { NamedArrays } from './core/named-arrays';
export {
  RingGradients,
  type GradientOptions,
  type NamedGradients,
  type NamedUpdates,
  type Shapes,
} from './core/ring-gradients';
