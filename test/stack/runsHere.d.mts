/** Says whether the tests of the stack run: only in `npm run test:stack`, and only with its programs. */
export function runsHere(): boolean;
