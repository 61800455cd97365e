"""Prices of a million tokens, by model and seller."""

from typing import Annotated

from gpucost.errors import GpucostError
from gpucost.options import Names, Option
from gpucost.price.tokens import TokenPricesAnswer, near_models, token_prices
from gpucost.questions import prices
from gpucost.questions.request import Request, with_notes
from gpucost.render.schema import table
from gpucost.render.view import Document, Table, figure, text


def prices_tokens(
    request: Request,
    provider: Annotated[
        Names, Option("Only this seller, such as openai, aws or gcp; repeatable.", "NAME")
    ] = (),
    model: Annotated[
        str | None,
        Option("Only models of this name, or of this name after a slash; * and ? are wildcards.", "GLOB"),
    ] = None,
) -> Document:
    """List the prices of a million tokens by model and seller: input, cached input and output.

    List prices of gpucost's catalog, each with its day, source and original currency. aws is Amazon Bedrock, gcp is Vertex AI
    and the Gemini API, azure is Azure OpenAI and Foundry. Batch, priority, long-context and negotiated prices are not included.

    \b
    Examples:
      gpucost prices tokens
      gpucost prices tokens --provider openai --provider azure --model "gpt-5*"
      gpucost prices tokens --model "*llama-3.3-70b*" --format json
    """
    settings = request.settings
    today, days = prices.today_in(settings.tz), settings.prices.stale_after_days
    rows = token_prices(today, provider, model)
    if not rows:
        sellers = sorted({price.provider for price in token_prices(today, (), model)})
        where = f" at {' or '.join(provider)}" if provider else ""
        near = f"it is sold by {', '.join(sellers)}" if sellers else near_models(None, model or "", today)
        raise GpucostError(f"no price of tokens of {model or 'any model'} is known{where}", near)
    answer = TokenPricesAnswer(today, days, rows)
    stale = sum((today - price.price_as_of).days > days for price in rows)
    old = f"{stale:,} of {len(rows):,} prices are over {days} days old; a newer gpucost has newer prices"
    columns = [
        text("provider"),
        text("model"),
        prices.price_column("input_price_per_million", "Input"),
        prices.price_column("cached_input_price_per_million", "Cached input", weight=1),
        prices.price_column("output_price_per_million", "Output"),
        figure(lambda row: str(row.price_as_of), "As of", weight=2),
        text("source", weight=4),
    ]
    document = Document(
        title="Prices of a million tokens",
        subtitle=f"list prices, {answer.today}",
        currency=rows[0].currency,
        sections=(Table.of("Prices per million tokens", rows, columns),),
        name="prices.tokens",
        data=answer,
        flat=table(rows),
        whole_in="json",
    )
    return with_notes(request, document, [old] if stale else [])
