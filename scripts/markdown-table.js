// Tables of the docs that are written from measured data.

/**
 * A table as Prettier writes it; the first row is the heading.
 *
 * @param {string[][]} table
 */
function markdownTable([heads, ...rows]) {
  const widths = heads.map((_, i) => Math.max(...[heads, ...rows].map(row => row[i].length)));
  const line = row => `| ${row.map((cell, i) => cell.padEnd(widths[i])).join(' | ')} |`;
  return `${[heads, widths.map(width => '-'.repeat(width)), ...rows].map(row => line(row)).join('\n')}\n`;
}

/** The page with another text at a place, which is between `<!-- place, … -->` and `<!-- end -->`. */
function withText(page, place, text) {
  const pattern = new RegExp(`(<!-- ${place}, [^>]*-->\n)(?:(?!<!--)[^])*(<!-- end -->)`);
  if (!pattern.test(page)) throw new Error(`The page has no place for ${place}.`);
  return page.replace(pattern, (_, begin, end) => `${begin}\n${text}\n${end}`);
}

module.exports = { markdownTable, withText };
