import { setTimeout as sleep } from 'node:timers/promises';
import type { CallMismatch } from '../collectives/collective-call';
import { GradringError } from '../errors';
import type { RankState } from '../transport/control/roll-call';
import type { Transport } from '../transport/transport';
import { describeArguments, describeCall } from '../wire/describe-call';
import { type CallFingerprint, Operation, Purpose } from '../wire/frame';
import type { StepSettings } from '../wire/rank-status';

/** How often this rank checks whether the other has answered what it is doing. */
const LOOK_MS = 5;

/** How long the other rank may take to answer. */
const ANSWER_MS = 1_000;

/** A thread that is late looks at least so often: the answer may have come meanwhile. */
const LEAST_LOOKS = 10;

/** Where in its program a rank is. */
interface Place {
  readonly rank: number;
  readonly call: CallFingerprint;
  readonly sequence: number;
  /** The optimizer's step, if the rank is in one and has reported it. */
  readonly step: number | undefined;
  readonly settings: StepSettings | undefined;
}

/**
 * Finds out what two ranks in different calls are doing, and describes it in the user's terms: a user calls most
 * collectives only through `model.fit` and an optimizer. Asks the other rank if its frame does not say enough.
 */
export async function explainMismatch(
  mismatch: CallMismatch,
  own: Pick<Place, 'step' | 'settings'>,
  transport: Transport,
): Promise<GradringError> {
  const { theirs, mine } = mismatch;
  const isStep = theirs.operation === Operation.Exchange;
  const state = isStep ? await stateOf(transport, theirs.origin, theirs.sequence) : undefined;
  const places: Place[] = [
    { rank: mine.rank, call: mine.fingerprint, sequence: mine.sequence, ...own },
    { rank: theirs.origin, call: theirs, sequence: theirs.sequence, step: state?.step, settings: state?.settings },
  ];
  const [first, second] = places.sort((a, b) => a.rank - b.rank) as [Place, Place];
  if (mismatch.code === 'ERR_MODEL_MISMATCH') {
    return new GradringError(mismatch.code, differentSteps(first, second), mismatch.details, { cause: mismatch });
  }
  const { words, rank } = differentCalls(first, second);
  return new GradringError(mismatch.code, words, rank === undefined ? {} : { rank }, { cause: mismatch });
}

/** What a rank answers about the call that it is in. Undefined if it does not answer in time. */
async function stateOf(transport: Transport, rank: number, sequence: number): Promise<RankState | undefined> {
  const askedAt = performance.now();
  transport.rollCall.ask('answers');
  const isInTime = () => performance.now() - askedAt < ANSWER_MS;
  for (let looks = 0; !transport.failed && (isInTime() || looks < LEAST_LOOKS); looks++) {
    const state = transport.rollCall.answers(askedAt).get(rank);
    if (state?.isCalling && state.sequence === sequence) return state;
    await sleep(LOOK_MS);
  }
  return undefined;
}

/** Both ranks are in an optimizer step, at the same place of their programs. */
function differentSteps(first: Place, second: Place): string {
  const names = Object.keys({ ...first.settings, ...second.settings }) as (keyof StepSettings)[];
  const differing = names.filter(name => first.settings?.[name] !== second.settings?.[name]);
  if (first.settings === undefined || second.settings === undefined) {
    return `Rank ${first.rank} and rank ${second.rank} take different optimizer steps. How they differ is not known, because one of them does not answer. Use the same model, options of ring.wrap, learning rate, epoch and step on all ranks.`;
  }
  if (differing.length === 0) {
    const which = first.step === undefined ? 'an optimizer step' : `optimizer step ${first.step}`;
    return `Rank ${first.rank} and rank ${second.rank} take ${which} of different optimizers: the models or the options of ring.wrap differ, or the ranks use several optimizers in different order. Build and use them in the same way on all ranks.`;
  }
  const said = ({ settings, rank }: Place, name: keyof StepSettings) =>
    `${settings![name] ?? 'not set'} on rank ${rank}`;
  const differences = differing.map(name => `${name} is ${said(first, name)}, but ${said(second, name)}`);
  return `Ranks take different optimizer steps: ${differences.join('; ')}. Set ${differing.length === 1 ? 'it' : 'them'} to the same value on all ranks.`;
}

/** Also returns the rank that is wrong, if that is known. */
function differentCalls(first: Place, second: Place): { readonly words: string; readonly rank?: number } {
  const places = [first, second];
  const ended = places.find(({ call }) => call.purpose === Purpose.EndEpoch);
  const stepping = places.find(({ call }) => call.operation === Operation.Exchange);
  if (ended !== undefined && stepping !== undefined) {
    const { step } = stepping;
    const [after, next] =
      step === undefined
        ? ['', 'another step']
        : [step === 0 ? ' before any step' : ` after step ${step - 1}`, `step ${step}`];
    const words = `Rank ${ended.rank} ended its epoch${after}, but rank ${stepping.rank} continues with ${next}. Do the ranks have different numbers of rows, batch sizes or stepsPerEpoch, or does one of them stop early? ring.shard gives all ranks the same number of rows.`;
    return { words, rank: ended.rank };
  }
  const begins = places.find(({ call }) => call.purpose === Purpose.BeginTraining);
  const firstStep = places.find(({ call }) => call.purpose === Purpose.FirstStep);
  if (begins !== undefined && firstStep !== undefined) {
    const words = `Rank ${begins.rank} begins model.fit with ring.callbacks(), but rank ${firstStep.rank} takes its first optimizer step without them. Pass ring.callbacks() to model.fit on all ranks.`;
    return { words, rank: firstStep.rank };
  }
  const [one, other] = placesInWords(first, second);
  const lengths = first.sequence === second.sequence ? adviceOnLengths(first.call, second.call) : undefined;
  const [what, advice] =
    lengths === undefined
      ? ['are at different places of their programs', 'All ranks must make the same calls, in the same order.']
      : ['make the same call with arrays of different lengths', lengths];
  return { words: `Ranks ${what}: rank ${first.rank} is in ${one}, but rank ${second.rank} is in ${other}. ${advice}` };
}

/** What to do if two calls by the user differ only in the lengths of their arrays. Undefined if they do not. */
function adviceOnLengths(first: CallFingerprint, second: CallFingerprint): string | undefined {
  const keys = ['operation', 'purpose', 'elementType', 'reduction'] as const;
  if (first.purpose !== Purpose.Call || keys.some(key => first[key] !== second[key])) return undefined;
  const isGather = first.operation === Operation.AllGather;
  if (first.parameter !== second.parameter) {
    return isGather ? 'Pass { variableLength: true } to allGather on all ranks, or on none.' : undefined;
  }
  return isGather
    ? 'If that is meant so, pass { variableLength: true } to allGather on all ranks.'
    : 'All ranks must pass arrays of the same length.';
}

/** Where both ranks are. If the words are the same for both, adds the arguments of the calls, or their numbers. */
function placesInWords(first: Place, second: Place): [string, string] {
  const ways: ((place: Place) => string)[] = [
    ({ call, step }) => `${describeCall(call)}${step === undefined ? '' : ` (step ${step})`}`,
    ({ call }) => `${describeCall(call)}, ${describeArguments(call)}`,
    ({ call, sequence }) => `${describeCall(call)}, its collective ${sequence}`,
  ];
  const pairs = ways.map(way => [way(first), way(second)] as [string, string]);
  return pairs.find(([one, other]) => one !== other) ?? pairs.at(-1)!;
}
