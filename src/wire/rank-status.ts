import { type Check, isBetween, isBoolean, isCount, isNumber, isOneOf, isOptional, isRecordOf, isWith } from '../shape';

/** What a status asks of other ranks: nothing; their status; their status and a report to the user of missing ranks. */
export const ASKS = ['nothing', 'answers', 'report'] as const;

const SETTINGS = ['step', 'epoch', 'learningRate', 'density', 'momentum', 'momentumScale'] as const;

/** What must be equal on all ranks in an optimizer step. Values that the user has not given are left out. */
export type StepSettings = { readonly [name in (typeof SETTINGS)[number]]?: number };

/** What a rank is doing in the collective that is under way, or in the last one. */
export interface RankStatus {
  /** Whether the collective is under way. */
  readonly isCalling: boolean;
  /** For how long it has been under way, or over, in ms. */
  readonly sinceMs: number;
  /** The optimizer's step, if the collective belongs to one. */
  readonly step: number | undefined;
  /** The settings of that step, while it is under way. */
  readonly settings: StepSettings | undefined;
  /** The rank increases it with every status that it sends. */
  readonly round: number;
  readonly asks: (typeof ASKS)[number];
}

const isSettings: Check<StepSettings> = (value): value is StepSettings =>
  isRecordOf(isNumber)(value) && Object.keys(value).every(name => SETTINGS.includes(name as keyof StepSettings));

/** Whether a value is what a status frame has as JSON. */
export const isRankStatus = isWith<RankStatus>({
  ...{ isCalling: isBoolean, sinceMs: isCount, step: isOptional(isCount), settings: isOptional(isSettings) },
  ...{ round: isBetween(0, 2 ** 32 - 1), asks: isOneOf(ASKS) },
});
