import type { CallFingerprint } from './frame';
import { Operation } from './generated/operation';
import { Purpose } from './generated/purpose';

/** Where a rank is in its program. The words follow "is in". A collective that the user called describes itself. */
const WORDS: Readonly<Record<Exclude<Purpose, Purpose.Call>, string>> = {
  [Purpose.FirstStep]: 'the first optimizer step',
  [Purpose.VerifyStep]: 'the comparison of weights after an optimizer step',
  [Purpose.BeginTraining]: 'the beginning of model.fit',
  [Purpose.EndEpoch]: 'the end of an epoch of model.fit',
  [Purpose.VerifyReplicas]: 'ring.verifyReplicas',
  [Purpose.BroadcastVariables]: 'ring.broadcastVariables',
  [Purpose.AverageVariables]: 'ring.averageVariables',
  [Purpose.AllOrNone]: 'ring.allOrNone',
  [Purpose.Join]: 'ring.join',
  [Purpose.Commit]: 'ring.commit',
  [Purpose.SaveCheckpoint]: 'checkpoint.save',
  [Purpose.ResumeCheckpoint]: 'checkpoint.resume',
  [Purpose.Evaluate]: 'ring.evaluate, or the validation of model.fit',
  [Purpose.Predict]: 'ring.predict',
  [Purpose.CountBatches]: "a step with ring.callbacks({ uneven: 'join' })",
  [Purpose.Group]: 'ring.group',
  [Purpose.Reunite]: 'the comparison of the ranks in a new ring',
};

/** What a rank has called, in the user's terms: `allReduce(sum, float32[1000])`, `an optimizer step`. */
export function describeCall(call: CallFingerprint): string {
  if (call.purpose !== Purpose.Call) return WORDS[call.purpose];
  return call.operation === Operation.Exchange ? 'an optimizer step' : describeArguments(call);
}

/** The collective itself, without its purpose: `broadcast(float32[1000], root 0)`. */
export function describeArguments(call: CallFingerprint): string {
  const name = Operation[call.operation] ?? 'unknown';
  const parts = [
    ...(call.reduction === 'none' ? [] : [call.reduction]),
    ...(call.elementType === 'none'
      ? []
      : [`${call.elementType}${call.elementCount > 0 ? `[${call.elementCount}]` : ''}`]),
    ...(call.operation === Operation.Broadcast ? [`root ${call.parameter}`] : []),
    ...(call.operation === Operation.AllGather && call.parameter === 1 ? ['variableLength'] : []),
  ];
  return `${name.charAt(0).toLowerCase()}${name.slice(1)}(${parts.join(', ')})`;
}
