const atMost = 300;

/** A message that holds what a stranger sent, such as the name of a field: never much longer than it is helpful. */
export function shortened(message: string): string {
  return message.length > atMost ? `${message.slice(0, atMost).toWellFormed()}…` : message;
}
