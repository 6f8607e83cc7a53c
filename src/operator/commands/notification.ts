import type { Command } from 'commander';
import type { Operator } from '../operator.js';
import { addCancel } from './notification/cancel.js';
import { addList } from './notification/list.js';
import { addRecover } from './notification/recover.js';
import { addRedeliver } from './notification/redeliver.js';
import { addShow } from './notification/show.js';

export function addNotificationCommands(program: Command, operator: Operator): void {
  const notification = program
    .command('notification')
    .description('list, send again, recover or cancel notifications');
  addList(notification, operator);
  addShow(notification, operator);
  addRedeliver(notification, operator);
  addCancel(notification, operator);
  addRecover(notification, operator);
}
