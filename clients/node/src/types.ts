/** Requests and answers of `POST /enrichments` and `GET /updates`, as `GET /openapi.json` describes them. */

/** Analysis found these segments for this video of this client. */
export interface EnrichmentEvent {
  /** 1 to 128 of `A-Z a-z 0-9 . _ : -`. Where it is absent the client makes one, so that a repeat is recognised. */
  event_id?: string;
  client_token: string;
  /** 1 to 256 characters. */
  platform_id: string;
  /** 0 to 200, of 1 to 128 characters each. */
  segments: readonly string[];
  /** `live` unless it says `backfill`. */
  priority?: 'live' | 'backfill';
  /** False records the segments without a notification. */
  notify?: boolean;
}

/** The event is taken, for good. */
export type Accepted =
  | { event_id: string; notification: 'queued'; notification_id: string; held?: 'paused' | 'suspended' }
  | { event_id: string; notification: 'none'; reason: 'no_new_segments' | 'not_registered' | 'silent' };

/** In the place of an event of a batch that was not taken. */
export interface NotAccepted {
  event_id: string | null;
  code: string;
  msg: string;
}

/** An event that will not be sent again: the service refuses it, or the client was closed first. */
export class EventNotAccepted extends Error {
  override name = 'EventNotAccepted';

  /**
   * @param code of the service's catalogue (`unknown_client`, `invalid_event`, ...); `closed` where the client was closed before
   * the service answered: whether it was taken is then unknown, and sending `event` again is safe
   * @param event with its id
   */
  constructor(
    readonly code: string,
    message: string,
    readonly event: EnrichmentEvent,
  ) {
    super(message);
  }
}

/** An asset has new segments. */
export interface Update {
  platform_id: string;
  /** The `webhook-id` of its notification, if one was made. */
  notification_id?: string;
  /** False where the client had no URL: no notification was made. */
  notified?: boolean;
  /** ISO 8601. */
  updated_at: string;
}

/** What a table of stored notifications misses. */
export interface Reconciled {
  /** The newest update of each asset without its notification in the table; without `notification_id` none was made. */
  missing: Update[];
  /** How many assets were compared. */
  compared: number;
  /** `until` is before `sinceMs`: updates since then may still be owed. Nothing missing says nothing then. */
  nothing_compared: boolean;
  /** Updates until then were compared; ISO 8601. */
  until: string;
  /** From when the service's list is complete; ISO 8601. */
  complete_since?: string;
}

/** One answer of `GET /updates`, oldest first. */
export interface UpdatePage {
  updates: Update[];
  has_more: boolean;
  next_cursor: string;
  /** Every update until then was delivered, but for failed ones; ISO 8601. */
  delivered_until?: string | null;
  /** From when the updates are complete; ISO 8601. */
  complete_since?: string | null;
}

/** The service refuses to list updates; asking again does not help. */
export class UpdatesRefused extends Error {
  override name = 'UpdatesRefused';

  /**
   * @param code of the service's catalogue; `cursor_expired`: updates after `cursor` may be gone. Begin again without it
   */
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}
