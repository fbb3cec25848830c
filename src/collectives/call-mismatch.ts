import { GradringError } from '../errors';
import { describeCall } from '../wire/describe-call';
import { type CallFingerprint, type DataHeader, Operation } from '../wire/frame';

/** A frame has arrived that belongs to another call than the one that this rank is in. */
export class CallMismatch extends GradringError {
  constructor(
    /** The frame's header. */
    readonly theirs: DataHeader,
    readonly mine: { readonly rank: number; readonly sequence: number; readonly fingerprint: CallFingerprint },
  ) {
    const isStep =
      theirs.operation === Operation.Exchange &&
      mine.fingerprint.operation === Operation.Exchange &&
      theirs.sequence === mine.sequence;
    const words = `Rank ${theirs.origin} is in ${describeCall(theirs)}, but rank ${mine.rank} is in another call, ${describeCall(mine.fingerprint)}.`;
    super(isStep ? 'ERR_MODEL_MISMATCH' : 'ERR_COLLECTIVE_MISMATCH', words, { rank: theirs.origin });
  }
}
