import { LONGEST_NAME, printable } from './printable';

/** Whether a value that comes from another process is what it should be. */
export type Check<T> = (value: unknown) => value is T;

export const isAnything = (() => true) as unknown as Check<unknown>;
export const isText: Check<string> = value => typeof value === 'string';
/** A name that can be shown as it is. */
export const isName: Check<string> = (value): value is string =>
  isText(value) && printable(value, LONGEST_NAME) === value;

export const isBoolean: Check<boolean> = value => typeof value === 'boolean';
export const isNumber: Check<number> = (value): value is number => Number.isFinite(value);

/** A whole number from 0 on. */
export const isCount: Check<number> = (value): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/** A whole number from `least` to `most`. */
export function isBetween(least: number, most: number): Check<number> {
  return (value): value is number => Number.isInteger(value) && (value as number) >= least && (value as number) <= most;
}

export function isOneOf<T>(allowed: readonly T[]): Check<T> {
  return (value): value is T => allowed.includes(value as T);
}

export function isListOf<T>(check: Check<T>): Check<T[]> {
  return (value): value is T[] => Array.isArray(value) && value.every(check);
}

/** An object with any fields, all with such values. */
export function isRecordOf<T>(check: Check<T>): Check<Record<string, T>> {
  return (value): value is Record<string, T> => isObject(value) && Object.values(value).every(check);
}

/** An object with these fields. It may have others. */
export function isWith<T>(fields: { readonly [K in keyof T]-?: Check<T[K]> }): Check<T> {
  const checks = Object.entries(fields) as [string, Check<unknown>][];
  return (value): value is T => isObject(value) && checks.every(([name, check]) => check(value[name]));
}

/** Such a value, or undefined. */
export function isOptional<T>(check: Check<T>): Check<T | undefined> {
  return (value): value is T | undefined => value === undefined || check(value);
}

/** Such a value, or null. */
export function isOrNull<T>(check: Check<T>): Check<T | null> {
  return (value): value is T | null => value === null || check(value);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
