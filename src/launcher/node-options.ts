import { invalidArgument } from '../errors';

/**
 * Splits a text like `NODE_OPTIONS` into Node's options. Spaces separate them. Within double quotes a space belongs to
 * its option, and a backslash keeps the next character as it is.
 *
 * @param name What the text is called, for the error.
 * @throws GradringError `ERR_INVALID_ARGUMENT` if a double quote has no end.
 */
export function splitNodeOptions(text: string, name: string): string[] {
  const options: string[] = [];
  let option: string | undefined;
  let isQuoted = false;
  for (let i = 0; i < text.length; i += 1) {
    if (text[i] === '"') isQuoted = !isQuoted;
    else if (text[i] === ' ' && !isQuoted) {
      if (option !== undefined) options.push(option);
      option = undefined;
    } else option = (option ?? '') + (text[i] === '\\' && isQuoted ? (text[++i] ?? '') : text[i]);
  }
  if (isQuoted) throw invalidArgument(`${name} is '${text}', in which a double quote has no end.`);
  return option === undefined ? options : [...options, option];
}
