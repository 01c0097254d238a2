"""Keep the balances of accounts as events in a log, and mail each payment once. Run it again: it goes on.

python examples/event_sourcing.py /tmp/bank/payments-0 alice=100 bob=-30
"""

import json
import sys
from collections import Counter

import kafkalog
from kafkalog import Log, Record
from kafkalog.record.serialization import deserialize_json, deserialize_text


def balances(log: Log) -> Counter[str]:
    """Add up all payments."""
    total: Counter[str] = Counter()
    for payment in log.records(key_deserializer=deserialize_text, value_deserializer=deserialize_json):
        total[payment.key or ""] += payment.value["amount"]
    return total


def main(path: str, *payments: str) -> None:
    """Append the payments, then mail those that have not been mailed."""
    with kafkalog.open(path, "a") as log:
        for payment in payments:
            account, amount = payment.split("=")
            log.append([Record(json.dumps({"amount": int(amount)}).encode(), account.encode())])
        log.flush(force_active=True)
        mailer = log.consumer("mailer")
        for record in mailer.records():
            print(f"mail {record.offset}: {(record.key or b'').decode()} {(record.value or b'').decode()}")
            mailer.commit()  # after the mail: a crash before this line mails once more, and never too little
        for account, balance in sorted(balances(log).items()):
            print(f"{account}: {balance}")


if __name__ == "__main__":
    main(*sys.argv[1:])
