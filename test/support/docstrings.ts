import { CORE_EXPORTS, PUBLIC_EXPORTS, type PublicExport, publicCode } from './public-api';

/** What only gradring/core has. Its names begin so. */
export const CORE = 'core: ';
const isOnlyCore = ({ name, file }: PublicExport) =>
  !PUBLIC_EXPORTS.some(each => each.name === name && each.file === file);
const ofCore = publicCode(CORE_EXPORTS.filter(isOnlyCore)).map(code => ({ ...code, name: `${CORE}${code.name}` }));
export const CODE = [...publicCode(), ...ofCore];

/** The examples of a docstring: what is fenced as ```ts. */
export const examplesOf = (docstring: string): string[] =>
  [...docstring.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text]) => text!);
