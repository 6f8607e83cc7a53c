const atMost = 300;

/** Shortens a message that contains a stranger's text, such as the name of a field. */
export function shortened(message: string): string {
  return message.length > atMost ? `${message.slice(0, atMost).toWellFormed()}…` : message;
}
