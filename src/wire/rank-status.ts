import type * as flatbuffers from 'flatbuffers';
import type { Frame } from './generated/frame';
import { RankStatus as RankStatusStruct } from './generated/rank-status';

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

/** Call it between `startFrame` and `endFrame`. */
export function createRankStatus(
  builder: flatbuffers.Builder,
  status: Omit<RankStatus, 'settings'>,
): flatbuffers.Offset {
  const { sinceMs, step, round, isCalling, asks } = status;
  const [since, stepAfter] = [BigInt(Math.round(sinceMs)), BigInt(step === undefined ? 0 : step + 1)];
  return RankStatusStruct.createRankStatus(builder, since, stepAfter, round, isCalling ? 1 : 0, ASKS.indexOf(asks));
}

/** @throws RangeError if the frame has no status, or an impossible one. */
export function readRankStatus(frame: Frame, byteLength: number): Omit<RankStatus, 'settings'> {
  const status = frame.status();
  if (status === null || status.bb_pos + RankStatusStruct.sizeOf() > byteLength) throw new RangeError('no status');
  const asks = ASKS[status.asks()];
  const [sinceMs, stepAfter] = [Number(status.sinceMs()), Number(status.step())];
  if (asks === undefined || !Number.isSafeInteger(sinceMs) || !Number.isSafeInteger(stepAfter)) {
    throw new RangeError('impossible numbers');
  }
  const step = stepAfter === 0 ? undefined : stepAfter - 1;
  return { isCalling: status.isCalling() === 1, sinceMs, step, round: status.round(), asks };
}

/**
 * The settings in the text of a status frame.
 *
 * @throws Error if it is neither missing nor a JSON object of settings.
 */
export function decodeSettings(text: string | null): StepSettings | undefined {
  if (text === null) return undefined;
  const settings = JSON.parse(text) as unknown;
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings)) throw new RangeError('no object');
  for (const [name, value] of Object.entries(settings)) {
    if (!SETTINGS.includes(name as keyof StepSettings) || typeof value !== 'number') {
      throw new RangeError('a setting that does not exist');
    }
  }
  return settings as StepSettings;
}
