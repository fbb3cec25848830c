import { readFileSync } from 'node:fs';
import { ownFile } from './own-file';

/** What package.json says of this package. */
export interface Manifest {
  readonly version: string;
  /** The versions of Node with which it is tested: ranges such as `^20.15`, separated by `||`. */
  readonly engines: { readonly node: string };
  readonly peerDependencies: Readonly<Record<string, string>>;
}

export function readManifest(): Manifest {
  return JSON.parse(readFileSync(ownFile('../package.json'), 'utf8')) as Manifest;
}

/** The version of this package. */
export function readVersion(): string {
  return readManifest().version;
}
