import { printable, printableLines } from './printable';
import { isCount, isOneOf, isOptional, isText, isWith } from './shape';

/** All error codes. */
export const ERROR_CODES = [
  /** An option or an argument is wrong: a sparsity of 1, an unknown reduction, a detached array. */
  'ERR_INVALID_ARGUMENT',
  /** RANK, WORLD_SIZE or another variable is missing, contradicts another, or is not a number. */
  'ERR_INVALID_ENVIRONMENT',
  /** The version of Node is not supported. */
  'ERR_NODE_VERSION',
  /** A file of gradring is not beside its code, as in a bundle. */
  'ERR_BUNDLED',
  /** Two processes came to the rendezvous with the same rank. */
  'ERR_RANK_TAKEN',
  /** A process came to the rendezvous with another world size, run, encryption or version of gradring. */
  'ERR_RENDEZVOUS_REFUSED',
  /** Not every rank came to the rendezvous in time. */
  'ERR_RENDEZVOUS_TIMEOUT',
  /** A port or socket that this rank must bind is in use, or cannot be bound. */
  'ERR_ADDRESS_IN_USE',
  /** The loopback interface, where ranks of one host meet, is down. */
  'ERR_LOOPBACK_DOWN',
  /** This process may not have as many files and connections open as it needs. */
  'ERR_OPEN_FILES',
  /** A rank died or left, or its link was cut. The error's `rank` says which. */
  'ERR_PEER_LOST',
  /** A collective did not finish within its deadline. */
  'ERR_TIMEOUT',
  /** An `AbortSignal` ended a collective, and with it the ring, or the wait for the ring. `rank` says on which rank. */
  'ERR_ABORTED',
  /** Ranks called different collectives, or the same one with other lengths, types or options. */
  'ERR_COLLECTIVE_MISMATCH',
  /** What was to be the same on all ranks (`allOrNone`) is not. The error's `rank` is the first that differs. */
  'ERR_RESULTS_DIFFER',
  /** Ranks train different models: names, shapes, types or order of the variables differ. */
  'ERR_MODEL_MISMATCH',
  /** A peer sent bytes that are not a valid frame, or told something that ranks do not tell. */
  'ERR_PROTOCOL',
  /** A gradient held NaN or infinity. The error names rank, variable and step. */
  'ERR_NON_FINITE',
  /** TensorFlow.js has no gradient of an operation, or the backend does not have the operation. */
  'ERR_NO_GRADIENT',
  /** The weights of the ranks are not bit-identical. */
  'ERR_REPLICAS_DIVERGED',
  /** The communicator was closed, by `close()` or by an earlier error. */
  'ERR_CLOSED',
  /** The comm thread ended or stopped answering: a bug, or no memory left. */
  'ERR_COMM_THREAD',
  /** A variable or an array does not fit into a memory of 4 GiB, or the system has no more memory. */
  'ERR_OUT_OF_MEMORY',
  /** DGC's warm-up counts epochs, but the optimizer was not told which epoch it is. */
  'ERR_NO_EPOCH',
  /** No TensorFlow.js backend could be loaded, or not the one that was asked for. */
  'ERR_BACKEND',
  /** `link-tensorflow` found no TensorFlow, or could not build the binding, or the binding does not work. */
  'ERR_TENSORFLOW',
  /** A timeline cannot be written, read or merged. */
  'ERR_TIMELINE',
  /** A checkpoint cannot be written, read, or used by this ring. The error's `rank` says on which rank. */
  'ERR_CHECKPOINT',
  /** Another run, or another checkpoint of this program, uses the folder of checkpoints. The message names it. */
  'ERR_CHECKPOINT_IN_USE',
  /** A complete checkpoint has a file that is missing, truncated or changed. The message names the file. */
  'ERR_CHECKPOINT_DAMAGED',
  /** A model cannot be saved to, or loaded from, a `file://` URL. */
  'ERR_MODEL_FILES',
  /** The launcher was given a script that does not exist. */
  'ERR_SCRIPT_NOT_FOUND',
  /** The system cannot start a rank. */
  'ERR_RANK_FAILED',
] as const;

/** What went wrong, for programs. Every error that gradring raises on purpose has one of these as its `code`. */
export type ErrorCode = (typeof ERROR_CODES)[number];

/** What an error may say beyond its message. All of it is kept on the way from one thread to the other. */
export interface ErrorDetails {
  /** The rank that the error is about (the lost one, the one whose gradient held NaN), not the one that raises it. */
  readonly rank?: number;
  /** In a group: the number that the rank has in the run. */
  readonly rankOfRun?: number;
  /** The endpoint where a lost rank listened for its left neighbour. */
  readonly address?: string;
  /** The call that throws the error, as the user called it. */
  readonly operation?: string;
  /** The optimizer step, counted from 0. */
  readonly step?: number;
  /** The name of the variable that the error is about. */
  readonly variable?: string;
}

/** The most UTF-16 units in a message, and in a text of the details that comes from another process. */
const LONGEST_MESSAGE = 32_768;
const LONGEST_DETAIL = 1_024;

/**
 * The class of all errors that gradring raises on purpose: a code for programs, and a message for people that says what
 * to do.
 *
 * ```ts
 * try {
 *   dgc({ sparsity: 1.5 });
 * } catch (error) {
 *   if (error instanceof GradringError) console.log(error.code); // ERR_INVALID_ARGUMENT
 * }
 * ```
 */
export class GradringError extends Error {
  /** Always `GradringError`. */
  override readonly name = 'GradringError';

  /** @param message May quote anything: characters that are not printable are escaped. */
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly details: ErrorDetails = {},
    options?: ErrorOptions,
  ) {
    // Node prints a cause that is undefined, too.
    super(printableLines(message, LONGEST_MESSAGE), options?.cause === undefined ? undefined : options);
  }

  /** The rank that the error is about, if it is about one: {@link ErrorDetails.rank}. */
  get rank(): number | undefined {
    return this.details.rank;
  }
}

/** An error as plain data, for a message between threads or ranks. */
export interface SerializedError {
  readonly code: ErrorCode;
  readonly message: string;
  readonly details: ErrorDetails;
}

/** Any thrown value as plain data; what is not a {@link GradringError} becomes one of the given code. */
export function serializeError(error: unknown, otherwise: ErrorCode): SerializedError {
  if (error instanceof GradringError) return { code: error.code, message: error.message, details: error.details };
  const words = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { code: otherwise, message: printableLines(words, LONGEST_MESSAGE), details: {} };
}

export const isSerializedError = isWith<SerializedError>({
  code: isOneOf(ERROR_CODES),
  message: isText,
  details: isWith<ErrorDetails>({
    rank: isOptional(isCount),
    rankOfRun: isOptional(isCount),
    address: isOptional(isText),
    operation: isOptional(isText),
    step: isOptional(isCount),
    variable: isOptional(isText),
  }),
});

/** A {@link SerializedError} from another process, without what no error has. Undefined if the value is none. */
export function readError(value: unknown): SerializedError | undefined {
  if (!isSerializedError(value)) return undefined;
  const { code, message, details } = value;
  const { rank, address, operation, step, variable } = details;
  const texts = Object.entries({ address, operation, variable }).flatMap(([name, text]) =>
    text === undefined ? [] : [[name, printable(text, LONGEST_DETAIL)]],
  );
  return {
    code,
    message: printableLines(message, LONGEST_MESSAGE),
    details: { ...(rank !== undefined && { rank }), ...(step !== undefined && { step }), ...Object.fromEntries(texts) },
  };
}

/** The inverse of {@link serializeError}. The stack is that of the caller, who is the one to be shown. */
export function deserializeError(error: SerializedError): GradringError {
  return new GradringError(error.code, error.message, error.details);
}

/**
 * The error of a group's ring, which also says which rank of the run it is about.
 *
 * @param ranksOfRun The numbers that the ranks of the group have in the run. Undefined outside of groups.
 */
export function inRun(error: GradringError, ranksOfRun: readonly number[] | undefined): GradringError {
  const { code, message, rank, details, cause } = error;
  const rankOfRun = rank === undefined ? undefined : ranksOfRun?.[rank];
  if (rankOfRun === undefined) return error;
  const words = `${message} Rank ${rank} of this group is rank ${rankOfRun} of the run.`;
  return new GradringError(code, words, { ...details, rankOfRun }, { cause });
}

/** The error for a wrong argument. */
export function invalidArgument(message: string): GradringError {
  return new GradringError('ERR_INVALID_ARGUMENT', message);
}

/** The error for what is called, or waits, when the communicator is closed. */
export function closedError(): GradringError {
  return new GradringError('ERR_CLOSED', 'The communicator was closed.');
}

/** Whether an error means that somebody is gone or hangs, and not that the ranks do not fit together. */
export function isLoss(error: unknown): error is GradringError {
  return error instanceof GradringError && (error.code === 'ERR_PEER_LOST' || error.code === 'ERR_TIMEOUT');
}
