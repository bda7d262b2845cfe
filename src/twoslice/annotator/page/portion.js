// How much goes to the server at once.

/** @typedef {import("./types.js").Edit} Edit */

const MOST_EDITS = 200;
/** Numbers in runs, of up to eight characters each: half of what the server takes at once. */
const MOST_NUMBERS = 500_000;

/**
 * How many of the edits that wait go into one request. Whoever drew long without a connection has
 * more than the server takes at once, and a refusal would lose it.
 * @param {Edit[]} queue
 */
export function portion(queue) {
  let numbers = 0;
  let count = 0;
  for (const edit of queue.slice(0, MOST_EDITS)) {
    numbers += edit.runs?.length ?? 0;
    if (count && numbers > MOST_NUMBERS) break;
    count += 1;
  }
  return count;
}
